"""The middle of the screen: maps, mosaic, text, layers; one view at a time is seen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from tui_attn.answers import HeadSummary, ModelInfo, Stack
from tui_attn.maps import get
from tui_attn.render.grid import ZOOMS, Look
from tui_attn.tui.requests import MapAnswer
from tui_attn.tui.state import ViewState
from tui_attn.tui.widgets.grid import AttentionGrid
from tui_attn.tui.widgets.layers import LayerGrid
from tui_attn.tui.widgets.mosaic import Mosaic
from tui_attn.tui.widgets.sentence import Sentence
from tui_attn.tui.widgets.titled import Titled


class Stage(Horizontal):
    """Every view under its title, and which of them is seen.

    Attributes:
        maps: Two grids of queries and keys; the second follows the first.
        wall: Every head as a thumbnail.
        reading: The text, coloured by a row or column.
        depth: Tokens by layers.
        transfer: Layers by layers.
        own: Own shares of attribution, tokens by layers.
        compare: Attention and attribution of one token, keys by map.
    """

    DEFAULT_CSS = "Stage { width: 1fr; height: 1fr; }"

    def __init__(self, look: Look) -> None:
        super().__init__(id="stage")
        self.maps = [Titled(AttentionGrid(look), id=name) for name in ("first", "second")]
        self.wall = Titled(Mosaic(look), id="mosaic")
        self.reading = Titled(Sentence(look), id="sentence")
        self.depth = Titled(LayerGrid(look), id="identity")
        self.transfer = Titled(LayerGrid(look), id="transfer")
        self.own = Titled(LayerGrid(look), id="own")
        self.compare = Titled(LayerGrid(look), id="compare")
        self._labels: tuple[list[str], list[str]] = ([], [])
        self._stack: Stack | None = None

    def compose(self) -> ComposeResult:
        """All views; `show` hides the others."""
        yield from self.maps
        yield self.wall
        yield self.reading
        yield self.depth
        yield self.transfer
        yield self.own
        yield self.compare

    @property
    def grid(self) -> AttentionGrid:
        """The first grid."""
        return self.maps[0].body

    def shown_maps(self, state: ViewState) -> list[Titled[AttentionGrid]]:
        """The grids on the screen."""
        return self.maps if state.split else self.maps[:1]

    def main(self, state: ViewState) -> Widget:
        """The widget of the current view that takes the keys."""
        bodies: dict[str, Widget] = {
            "grid": self.grid,
            "mosaic": self.wall.body,
            "text": self.reading.body,
            "identity": self.depth.body,
            "transfer": self.transfer.body,
            "own": self.own.body,
            "compare": self.compare.body,
        }
        return bodies[state.view]

    def show(self, state: ViewState, ready: bool) -> None:
        """Show the widgets of the current view."""
        self.maps[0].display = ready and state.view == "grid"
        self.maps[1].display = ready and state.view == "grid" and state.split
        self.wall.display = ready and state.view == "mosaic"
        self.reading.display = ready and state.view == "text"
        self.depth.display = ready and state.view == "identity"
        self.transfer.display = ready and state.view == "transfer"
        self.own.display = ready and state.view == "own"
        self.compare.display = ready and state.view == "compare"

    def start(self, model: ModelInfo, state: ViewState) -> None:
        """Another model, stack or text."""
        self._stack = model.stack
        self.wall.body.start(model.attention_layers, model.heads, (state.layer, state.head))
        self.wall.title.show(
            f" {self.stack_title}All heads · raw attention",
            "columns heads, rows layers; enter opens ",
        )

    @property
    def stack_title(self) -> str:
        """What titles say first: the stack of an encoder-decoder."""
        return "" if self._stack is None else f"{self._stack.capitalize()} · "

    def set_labels(self, labels: tuple[list[str], list[str]], state: ViewState) -> None:
        """Other names, or other units, for queries and keys."""
        self._labels = labels
        for view in self.maps:
            view.body.set_axes(*labels)
        self.set_labels_of_text(state)

    def set_labels_of_text(self, state: ViewState) -> None:
        """The tokens or words of the text view; cross attention has two texts."""
        along = 1 if state.along == "key" else 0
        other = self._labels[1 - along] if self._stack == "cross" else None
        self.reading.body.set_labels(self._labels[along], self.grid.cursor[along], other)

    def show_map(self, answer: MapAnswer, state: ViewState, how: str) -> None:
        """Draw cells or pictures of the maps on the screen.

        Args:
            answer: The cells or pictures.
            state: What is on the screen.
            how: What made the numbers of a map that is not per head.
        """
        for number, (view, name) in enumerate(zip(self.shown_maps(state), state.maps, strict=True)):
            if answer.pictures:
                view.body.show_overview(answer.pictures[number], answer.scale)
            else:
                view.body.show(answer.windows[number], answer.scale)
            note = " sampled" if answer.sampled_rows else ""
            left_out = " without special" if state.without_special else ""
            spec = get(name)
            variant = f" ({state.variant})" if spec.has_variants else ""
            caption = view.body.caption
            head = f" H{state.head}" if spec.per_head else f" · {how}"
            where = f" {self.stack_title}{spec.title}{variant} · L{state.layer}{head}"
            scale = f"{answer.scale.legend()}{left_out}{note} "
            view.title.show(where + (f" · {caption}" if caption else ""), scale)
            if number == 0:
                self.reading.title.show(where, scale)

    def show_sentence(self, state: ViewState) -> None:
        """Colour the text by the cursor's row or column."""
        if state.view != "text" or state.along == "layer":
            return
        (query, key), window = self.grid.cursor, self.grid.window
        values: dict[int, float] = {}
        if window is not None and state.along == "query":
            values = dict(self.grid.row_values())
        elif window is not None and window.columns[0] <= key < window.columns[1]:
            column = key - window.columns[0]
            values = {
                window.rows[0] + int(row): float(window.values[row, column])
                for row in window.visible[:, column].nonzero()[0]
            }
        cursor = query if state.along == "query" else key
        self.reading.body.show(values, self.grid.scale, cursor)

    def follow(self, sender: AttentionGrid, state: ViewState) -> None:
        """Put the cursor of the other grid where this one's is."""
        for view in self.shown_maps(state):
            if view.body is not sender:
                view.body.follow(sender)

    def align(self, state: ViewState) -> None:
        """Maps side by side show the same cells."""
        if state.split:
            self.maps[1].body.follow(self.grid)

    def start_split(self) -> None:
        """The second map looks like the first."""
        second = self.maps[1].body
        second.zoom, second.look = self.grid.zoom, self.grid.look
        second.set_axes(*self._labels)

    def zoom(self, step: int) -> None:
        """Nearer or farther, in both grids."""
        place = ZOOMS.index(self.grid.zoom) + step
        zoom = ZOOMS[min(max(place, 0), len(ZOOMS) - 1)]
        for view in self.maps:
            view.body.clear()
            view.body.set_zoom(zoom)

    def recolour(self, look: Look, summaries: dict[int, list[HeadSummary]]) -> None:
        """Other colours everywhere."""
        for map_view in self.maps:
            map_view.body.look = look
            map_view.body.refresh()
        for layer_view in (self.depth, self.transfer, self.own, self.compare):
            layer_view.body.look = look
            layer_view.body.refresh()
        self.wall.body.look = self.reading.body.look = look
        self.reading.body.refresh()
        for found in summaries.values():
            self.wall.body.add(found)
