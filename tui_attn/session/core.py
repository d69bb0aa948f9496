"""The session: a model, the latest text, and what is asked about its heads."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

import torch

from tui_attn import maps
from tui_attn.answers import (
    Axis,
    BoolArray,
    Cell,
    Extent,
    FloatArray,
    HeadSummary,
    ModelInfo,
    ModelRequest,
    Overview,
    Run,
    Stack,
    Unit,
    Variant,
    Window,
)
from tui_attn.answers.attribution import ESTIMATED, AttributionChoices
from tui_attn.answers.memory import Keep
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import checks, grouping, nullspace, softmax
from tui_attn.maps.base import WindowFunction
from tui_attn.maps.heads import summarise
from tui_attn.model import tokens
from tui_attn.model.forward import traces_of, written_for
from tui_attn.model.loading import LoadedModel, load
from tui_attn.model.memory import told_of_shortage
from tui_attn.model.trace import Trace
from tui_attn.model.writing import Written
from tui_attn.progress import Job
from tui_attn.session import whole
from tui_attn.session.attribution import TokenAttribution
from tui_attn.session.identity import TokenIdentity
from tui_attn.session.turn import Turn


def open_session(
    request: ModelRequest, job: Job | None = None, *, tolerance: float | None = None
) -> Session:
    """Open a model.

    Args:
        request: Which model, and how.
        job: Told about the progress; cancelling it stops the work.
        tolerance: Relative bound below which a singular value counts as zero; None: max(s, d_v)
            times the precision of float32.

    Raises:
        InspectError: The model cannot be had or is not supported.
        Cancelled: The job was cancelled.
    """
    return Session(load(request, job or Job()), tolerance)


def _no_room() -> InspectError:
    return InspectError(
        "there is not enough memory for this",
        "select fewer queries, shorten the text with --max-tokens, or use --keep recompute",
        ExitCode.INPUT,
    )


class Session:
    """A loaded model and the latest text (the protocol `answers.Inspector`).

    Of an encoder-decoder it is one stack, and `on` gives the others over the same text.

    One computation on a trace runs at a time; a second thread waits for its turn. The model itself
    has a turn of its own, so that windows are answered while attribution keeps it busy.

    Args:
        loaded: The model.
        tolerance: See `open_session`.
        beside: A session over another stack of the model.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        tolerance: float | None = None,
        beside: Session | None = None,
    ) -> None:
        self._loaded = loaded
        self._tolerance = tolerance
        self._current: tuple[Run, Trace] | None = None
        self._turn: Turn = Turn() if beside is None else beside._turn
        self._every: dict[Stack | None, Session] = {} if beside is None else beside._every
        self._every[loaded.info.stack] = self
        for stack, other in loaded.stacks.items():
            if stack not in self._every:
                Session(other, tolerance, self)
        self._identity = TokenIdentity(loaded, self._turn, self._analysed)
        self._attribution = TokenAttribution(loaded, self._turn, self._analysed)

    @property
    def model(self) -> ModelInfo:
        """The model."""
        return self._loaded.info

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks of an encoder-decoder; none where the model is a single one."""
        return tuple(self._loaded.stacks)

    def on(self, stack: Stack) -> Session:
        """The same model and text, seen at another stack.

        Raises:
            InspectError: There is no such stack (exit code 2).
        """
        if stack not in self._loaded.stacks:
            raise InspectError(
                f"{self.model.name} has no stack {stack!r}",
                f"choose one of {', '.join(self.stacks)}"
                if self.stacks
                else "it is no encoder-decoder: leave out the stack",
                ExitCode.USAGE,
            )
        return self._every[stack]

    @property
    def run(self) -> Run:
        """The latest text that was analysed.

        Raises:
            InspectError: No text was analysed yet.
        """
        return self._analysed()[0]

    @property
    def trace(self) -> Trace:
        """What the forward pass left behind, for Python users."""
        return self._analysed()[1]

    @property
    def identity(self) -> TokenIdentity:
        """Answers for token identity."""
        return self._identity

    @property
    def attribution(self) -> TokenAttribution:
        """Answers for hidden token attribution."""
        return self._attribution

    def analyse(
        self,
        text: str,
        *,
        pair: str | None = None,
        decoder_text: str | None = None,
        max_tokens: int | None = None,
        keep: Keep | None = None,
        job: Job | None = None,
    ) -> Run:
        """Run a text through the model, all stacks of it; on failure the earlier run stays.

        Args:
            text: The text.
            pair: A second one, for models that read two.
            decoder_text: What an encoder-decoder's decoder reads; None: what the model itself
                writes to the text.
            max_tokens: Cut it to so many tokens.
            keep: Where the layers stay (`answers.memory.KEEPS`); None: beside the model, if there
                is room.
            job: Told about every layer.

        Raises:
            TooLarge: It does not fit into memory (exit code 5); other ways may.
            InspectError: A text is empty or too long (exit code 5), or there is no decoder to
                read one (2).
            Cancelled: The job was cancelled.
        """
        job = job or Job()
        started = time.perf_counter()
        if decoder_text is not None and not self.stacks:
            raise InspectError(
                f"{self.model.name} has no decoder that reads a text of its own",
                "it is no encoder-decoder: leave the decoder's text out",
                ExitCode.USAGE,
            )
        with self._loaded.running:
            encoded = tokens.encode(
                self._loaded.tokenizer,
                text,
                pair=pair,
                max_tokens=max_tokens,
                model_limit=self.model.max_tokens,
            )
            written = written_for(self._loaded, encoded, text, decoder_text, job)
            traces = traces_of(self._loaded, encoded, written, job, keep)
            run = Run(
                text=text,
                tokens=encoded.tokens,
                checks=(),
                seconds=0.0,
                pair=pair,
                truncated_from=encoded.truncated_from,
                cut_to=None if encoded.truncated_from is None else len(encoded.tokens),
                keep=keep or "device",
            )
            current: dict[Stack | None, tuple[Run, Trace]] = {}
            for stack, trace in traces.items():
                own = run if written is None else _of_stack(run, stack, written)
                made = replace(trace, tolerance=self._tolerance)
                session = self._every[stack]
                found = checks.of_run(
                    made, session._loaded.deficient_heads, session.model.causal, job
                )
                own = replace(
                    own,
                    checks=found.checks,
                    nan_count=found.nan_count,
                    inf_count=found.inf_count,
                    seconds=time.perf_counter() - started,
                )
                current[stack] = (own, made)
            for stack, latest in current.items():
                self._every[stack]._current = latest
            return self.run

    def length(self, unit: Unit = "token", axis: Axis = "query") -> int:
        """Number of rows, or of columns, of a query x key map, in tokens or words."""
        return len(self._edges(unit, axis)) - 1

    def window(
        self,
        map_name: str,
        layer: int,
        head: int,
        rows: tuple[int, int],
        columns: tuple[int, int],
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        attribution: AttributionChoices = ESTIMATED,
        job: Job | None = None,
    ) -> Window:
        """The cells of `rows` x `columns` (half-open) of a query x key map.

        Raises:
            InspectError: There is no such map, layer, head, row or column (exit code 2).
        """
        with self._turn, torch.inference_mode(), told_of_shortage(_no_room):
            if job is not None:
                job.check()
            if maps.get(map_name).per_head:
                self._must_exist(layer, head)
            self._must_be_inside(rows, unit, "query")
            self._must_be_inside(columns, unit, "key")
            row_edges, column_edges = self._edges(unit), self._edges(unit, "key")
            token_rows = (row_edges[rows[0]], row_edges[rows[1]])
            token_columns = (column_edges[columns[0]], column_edges[columns[1]])
            trace = self.trace
            if maps.get(map_name).per_head:
                cells = self._function(map_name)(
                    trace, layer, head, token_rows, token_columns, variant
                )
                visibility = trace.layers[layer].visibility
                visible = visibility.mask(token_rows, token_columns)
                blind = visibility.blind(token_rows)
            else:
                shares = self.attribution.shares(layer, attribution)
                cells = shares[slice(*token_rows), slice(*token_columns)]
                visible = self._reaches(token_rows, token_columns)
                blind = visible.new_zeros(len(visible))
            if unit == "word":
                cells, visible = grouping.by_words(
                    cells, visible, (row_edges, column_edges), rows, columns
                )
                blind = grouping.all_of_words(blind, row_edges, rows)
            return Window(
                map_name,
                layer,
                head,
                rows,
                columns,
                cells.masked_fill(~visible, torch.nan).cpu().numpy(),
                visible.cpu().numpy(),
                tuple((blind.nonzero().flatten() + rows[0]).tolist()),
            )

    def overview(
        self,
        map_name: str,
        layer: int,
        head: int,
        shape: tuple[int, int],
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        attribution: AttributionChoices = ESTIMATED,
        thorough: bool = True,
        job: Job | None = None,
    ) -> Overview:
        """The whole map pooled to at most `shape` cells, each the value of largest magnitude.

        Unless `thorough`, only some rows of a long text are looked at, and the answer says so.
        """
        return whole.picture(
            self._whole(map_name, layer, head, variant, unit, attribution),
            self._shape(unit),
            shape,
            thorough=thorough,
            job=job or Job(),
        )

    def cell(
        self,
        layer: int,
        head: int,
        query: int,
        key: int,
        *,
        variant: Variant = "output",
        unit: Unit = "token",
    ) -> Cell:
        """Raw, effective and null attention of one cell."""
        with self._turn:
            rows, columns = (query, query + 1), (key, key + 1)
            raw = self.window("attention", layer, head, rows, columns, unit=unit)
            effective = self.window(
                "effective", layer, head, rows, columns, variant=variant, unit=unit
            )
            edges = self._edges(unit)
            span = (edges[query], edges[query + 1])
            visibility = self.trace.layers[layer].visibility
            _, factors = nullspace.factor(self.trace, layer, head, variant)
            dimensions = factors.null_dimensions(span)
            widest = int(dimensions.argmax())
            token = span[0] + widest
            raw_value, effective_value = float(raw.values[0, 0]), float(effective.values[0, 0])
            return Cell(
                raw=raw_value,
                effective=effective_value,
                null=raw_value - effective_value,
                visible=bool(raw.visible[0, 0]),
                null_dimension=int(dimensions[widest]),
                visible_keys=int(visibility.stop[token] - visibility.first[token]),
                missing=softmax.missing_mass(self.trace.layers[layer], head, span),
            )

    def extent(
        self,
        map_name: str,
        layer: int,
        head: int,
        *,
        variant: Variant = "output",
        unit: Unit = "token",
        without_special: bool = False,
        attribution: AttributionChoices = ESTIMATED,
        job: Job | None = None,
    ) -> Extent:
        """The span of a head's map; `without_special` leaves special tokens and the sink out."""
        what = (map_name, layer, head, variant, unit, attribution)
        job = job or Job()
        with self._turn:
            return self.trace.remember(
                ("extent", *what, without_special),
                lambda: whole.span(
                    self._whole(*what),
                    self._shape(unit),
                    (self._special_and_sink(unit, "query"), self._special_and_sink(unit, "key"))
                    if without_special
                    else ([], []),
                    job,
                ),
            )

    def summaries(
        self, layer: int, *, variant: Variant = "output", job: Job | None = None
    ) -> Sequence[HeadSummary]:
        """Statistics of every head of a layer; remembered for the run.

        Raises:
            Cancelled: The job was cancelled.
        """
        job = job or Job()
        found: list[HeadSummary] = []
        trace = self.trace
        for head in range(self.model.heads):
            job.report(f"statistics of layer {layer}", head, self.model.heads)
            with self._turn, torch.inference_mode(), told_of_shortage(_no_room):
                self._must_exist(layer, head)
                found.append(
                    trace.remember(
                        ("summary", layer, head, variant),
                        lambda head=head: summarise(
                            trace, layer, head, variant, self._turn.between_blocks(job)
                        ),  # type: ignore[misc]
                    )
                )
        return found

    def provenance(self) -> dict[str, object]:
        """What is needed to make the numbers again."""
        model, run = self.model, self.run
        return {
            "model": model.name,
            "family": model.family,
            "revision": model.revision,
            "quantised": model.quantised,
            "device": model.device,
            "dtype": model.dtype,
            "kernel": model.kernel,
            "layers_kept": run.keep,
            "tolerance": "max(s, d_v) * eps(float32)"
            if self._tolerance is None
            else self._tolerance,
            "text_sha256": hashlib.sha256(
                "\0".join(filter(None, (run.text, run.pair))).encode("utf-8", "surrogatepass")
            ).hexdigest(),
            "tokens": len(run.tokens),
            "truncated_from": run.truncated_from,
            **self._of_stack(),
            "nan_count": run.nan_count,
            "inf_count": run.inf_count,
            "checks": {check.name: check.error for check in run.checks},
            "counting": "layers, heads and positions count from 0",
            "versions": {
                package: version(package)
                for package in ("attn-inspect", "torch", "transformers", "numpy")
            },
        }

    def _of_stack(self) -> dict[str, object]:
        """What else is needed to make an encoder-decoder's numbers again."""
        if self.model.stack is None:
            return {}
        return {
            "stack": self.model.stack,
            "decoder_text": self.run.decoder_text,
            "decoder_source": self.run.decoder_source,
            "keys": len(self.run.key_tokens),
        }

    def _analysed(self) -> tuple[Run, Trace]:
        if self._current is None:
            raise InspectError("no text was analysed yet", "call analyse first", ExitCode.INPUT)
        return self._current

    def _function(self, map_name: str) -> WindowFunction:
        window = maps.get(map_name).window
        if window is None:
            raise InspectError(
                f"the map {map_name!r} is a table and has no cells",
                "use attention, effective or null",
                ExitCode.USAGE,
            )
        return window

    def _edges(self, unit: Unit, axis: Axis = "query") -> Sequence[int]:
        """Token positions at which each token or word of an axis starts, and the end."""
        run, trace = self._analysed()
        tokens = run.tokens if axis == "query" else run.key_tokens
        if unit == "token":
            return range(len(tokens) + 1)
        return trace.remember(
            ("word edges", axis), lambda: grouping.word_edges([token.word for token in tokens])
        )

    def _shape(self, unit: Unit) -> tuple[int, int]:
        """Rows and columns of a query x key map."""
        return self.length(unit), self.length(unit, "key")

    def _reaches(self, rows: tuple[int, int], columns: tuple[int, int]) -> torch.Tensor:
        """(rows, columns) bool: which inputs can reach a hidden state at all."""
        shape = (rows[1] - rows[0], columns[1] - columns[0])
        everything = torch.ones(shape, dtype=torch.bool)
        return everything.tril(rows[0] - columns[0]) if self.model.causal else everything

    def _must_exist(self, layer: int, head: int) -> None:
        layers = sorted(self.trace.layers)
        if layer not in layers:
            raise InspectError(
                f"layer {layer} has no attention"
                if layer in self.model.without_attention
                else f"there is no layer {layer}",
                f"the layers with attention are {', '.join(map(str, layers))}"
                if self.model.without_attention
                else f"layers count from {layers[0]} to {layers[-1]}",
                ExitCode.USAGE,
            )
        if not 0 <= head < self.model.heads:
            raise InspectError(
                f"there is no head {head}",
                f"heads count from 0 to {self.model.heads - 1}",
                ExitCode.USAGE,
            )

    def _must_be_inside(self, span: tuple[int, int], unit: Unit, axis: Axis) -> None:
        length = self.length(unit, axis)
        if not 0 <= span[0] < span[1] <= length:
            raise InspectError(
                f"there are no {unit}s {span[0]}:{span[1]}",
                f"{unit}s count from 0 to {length - 1}",
                ExitCode.USAGE,
            )

    def _whole(
        self,
        map_name: str,
        layer: int,
        head: int,
        variant: Variant,
        unit: Unit,
        attribution: AttributionChoices,
    ) -> whole.Window:
        """A map as a function of its rows."""
        columns = (0, self.length(unit, "key"))

        def window(rows: tuple[int, int]) -> tuple[FloatArray, BoolArray]:
            found = self.window(
                map_name,
                layer,
                head,
                rows,
                columns,
                variant=variant,
                unit=unit,
                attribution=attribution,
            )
            return found.values, found.visible

        return window

    def _special_and_sink(self, unit: Unit, axis: Axis) -> list[int]:
        """Positions of special tokens, and of the first token, on which attention piles up."""
        tokens = self.run.tokens if axis == "query" else self.run.key_tokens
        edges = self._edges(unit, axis)
        return [
            position
            for position in range(len(edges) - 1)
            if position == 0 or tokens[edges[position]].special
        ]


def _of_stack(run: Run, stack: Stack | None, written: Written) -> Run:
    """The run of the encoder as one of the stacks sees it."""
    return replace(
        run,
        tokens=run.tokens if stack == "encoder" else written.tokens,
        looked_at=run.tokens if stack == "cross" else None,
        decoder_text=written.text,
        decoder_source=written.source,
    )
