"""The one registry of actions: bindings, footer, help, palette and docs/keys.md come from here."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True)
class Action:
    """Something a key does.

    Attributes:
        call: The screen's action, as textual writes it: `move(0, 1)`.
        keys: Names of keys, as textual knows them.
        shown: The keys as people read them.
        help: What it does.
        group: Heading in the help.
        footer: Its short name in the footer, empty to stay out of it.
        identity: Its short name in the footer under token identity.
        attribution: Its short name in the footer under attribution.
    """

    call: str
    keys: str
    shown: str
    help: str
    group: str
    footer: str = ""
    identity: str = ""
    attribution: str = ""


ACTIONS = (
    Action("move(0, -1)", "left,h", "← h", "one key to the left", "Move"),
    Action(
        "move(1, 0)", "down,j", "↓ j", "one query down; in a pane the next layer or head", "Move"
    ),
    Action("move(-1, 0)", "up,k", "↑ k", "one query up; in a pane the previous one", "Move"),
    Action("move(0, 1)", "right,l", "→ l", "one key to the right", "Move"),
    Action("page(1)", "pagedown", "pgdn", "a screen down", "Move"),
    Action("page(-1)", "pageup", "pgup", "a screen up", "Move"),
    Action("edge('left')", "home", "home", "the first key", "Move"),
    Action("edge('right')", "end", "end", "the last key", "Move"),
    Action("edge('top')", "g", "g", "the first query", "Move"),
    Action("edge('bottom')", "G,shift+g", "G", "the last query", "Move"),
    Action("focus_next", "tab", "tab", "next pane", "Move"),
    Action("focus_previous", "shift+tab", "shift+tab", "previous pane", "Move"),
    Action("open_here", "enter", "enter", "open the head under the cursor of the mosaic", "Move"),
    Action("head(-1)", "left_square_bracket", "[", "previous head", "Heads"),
    Action("head(1)", "right_square_bracket", "]", "next head", "Heads", "head"),
    Action("layer(-1)", "left_curly_bracket", "{", "previous layer", "Heads"),
    Action(
        "layer(1)", "right_curly_bracket", "}", "next layer", "Heads", "layer", "layer", "layer"
    ),
    Action("statistic", "full_stop", ".", "next statistic in the panes", "Heads"),
    Action("sort", "comma", ",", "sort the heads by the statistic, and back", "Heads"),
    Action(
        "mosaic",
        "m",
        "m",
        "all heads at once, and back; for token identity and attribution all layers",
        "Heads",
        identity="transfer",
        attribution="own shares",
    ),
    *(
        Action(f"map({number})", str(number), str(number), f"map {number}", "Maps")
        for number in range(1, 10)
    ),
    Action(
        "flip",
        "space",
        "space",
        "flip raw ↔ effective; for token identity rank ↔ similarity",
        "Maps",
        "raw↔eff",
        "rank↔cosine",
    ),
    Action(
        "split",
        "s",
        "s",
        "a second map beside, with one cursor; for attribution attention beside it",
        "Maps",
        "split",
        attribution="beside attention",
    ),
    Action(
        "stack",
        "S,shift+s",
        "S",
        "next stack of an encoder-decoder: encoder, decoder, cross attention",
        "Maps",
    ),
    Action(
        "variant",
        "V,shift+v",
        "V",
        "next variant of effective attention, next method of token identity",
        "Maps",
        identity="method",
    ),
    Action(
        "exact", "E,shift+e", "E", "exact attribution, with all tangents", "Maps", "", "", "exact"
    ),
    Action(
        "ask('choices')",
        "i",
        "i",
        "the choices that change the numbers of this map",
        "Maps",
        identity="choices",
        attribution="choices",
    ),
    Action("zoom(1)", "plus,equals_sign", "+", "nearer", "Look"),
    Action("zoom(-1)", "minus", "-", "farther, down to the whole map", "Look"),
    Action(
        "text_view", "v", "v", "the text itself, coloured by the row; again: by the column", "Look"
    ),
    Action("words", "w", "w", "words instead of tokens: keys add up, queries average", "Look"),
    Action("labels", "r", "r", "labels readable, raw, ids", "Look"),
    Action(
        "without_special", "x", "x", "special tokens and the sink out of the colour scale", "Look"
    ),
    Action("colours", "c", "c", "next colour map", "Look"),
    Action(
        "ask('goto')",
        "colon",
        ":",
        "go to, for example L5H3 q=12 k=3",
        "Find",
        "go to",
        "go to",
        "go to",
    ),
    Action("ask('find')", "slash", "/", "find a token", "Find"),
    Action("find_again(1)", "n", "n", "next hit", "Find"),
    Action("find_again(-1)", "N,shift+n", "N", "previous hit", "Find"),
    Action("ask('edit_text')", "t", "t", "edit the text and run it", "Do", "text", "text", "text"),
    Action(
        "ask('edit_decoder_text')", "T,shift+t", "T", "edit what a decoder reads and run it", "Do"
    ),
    Action("ask('open_model')", "o", "o", "open another model", "Do"),
    Action("ask('export')", "e", "e", "export what is shown", "Do", "export", "export", "export"),
    Action("copy_row", "y", "y", "copy the row to the terminal's clipboard", "Do"),
    Action("cancel", "escape", "esc", "stop what is running, or close what is open", "Do"),
    Action("command_palette", "ctrl+p", "ctrl+p", "command palette", "Do"),
    Action("ask('show_help')", "question_mark,f1", "?", "this help", "Do", "help", "help", "help"),
    Action("quit", "q", "q", "quit", "Do"),
)

_APP_ACTIONS = {"focus_next", "focus_previous", "command_palette", "quit"}


def bindings() -> list[Binding]:
    """Textual's bindings of the main screen."""
    return [
        Binding(
            action.keys,
            f"app.{action.call}" if action.call in _APP_ACTIONS else action.call,
            action.help,
            show=False,
            priority=action.call == "command_palette",
        )
        for action in ACTIONS
    ]


def markdown() -> str:
    """The table of keys for the documentation."""
    lines = ["# Keys", "", "| key | does |", "| --- | --- |"]
    lines += [f"| `{action.shown}` | {action.help} |" for action in ACTIONS]
    return "\n".join(lines) + "\n"
