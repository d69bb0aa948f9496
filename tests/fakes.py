"""A session with fixed numbers and no torch, for tests of the screen and of the exports."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from tui_attn.answers import (
    STACKS,
    Axis,
    Cell,
    Check,
    Extent,
    HeadSummary,
    ModelInfo,
    Overview,
    Run,
    Stack,
    Token,
    Unit,
    Variant,
    Window,
)
from tui_attn.answers.attribution import (
    ESTIMATED,
    AttributionChoices,
    AttributionState,
    Comparison,
    KindShares,
    Mixing,
    OwnShares,
)
from tui_attn.answers.identity import (
    IdentityChoices,
    IdentityWindow,
    ProbeInfo,
    Rate,
    Transfer,
    choose,
)
from tui_attn.answers.memory import Keep, MemoryPlan, TooLarge
from tui_attn.answers.runs import TooLong
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import get
from tui_attn.progress import Job

HOSTILE = [
    "[/INST]",
    "[red]",
    "\x1b[2J",
    "\t",
    "\u200b",
    "日本",
    "👨‍👩‍👧‍👦",
    "\u202e",
    "=1+1",
    "a|b",
    "<script>",
]


class FakeIdentity:
    """Hidden states that fade with depth: token i is itself up to layer i mod (layers + 2)."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.error: InspectError | None = None
        self.methods: tuple[str, ...] = ("ridge",)

    @property
    def layers(self) -> tuple[str, ...]:
        return ("emb", *(str(layer) for layer in range(self._session.model.layers)))

    def tokens(self, special: bool) -> tuple[int, ...]:
        return tuple(t.position for t in self._session.run.tokens if special or not t.special)

    def window(
        self, rows: tuple[int, int], choices: IdentityChoices, *, job: Job | None = None
    ) -> IdentityWindow:
        self._session._wait(job)
        if self.error is not None:
            raise self.error
        if self._session.model.stack == "cross":
            raise InspectError("no hidden states here", "look at the encoder", ExitCode.USAGE)
        tokens, count = self.tokens(choices.special)[slice(*rows)], len(self._session.run.tokens)
        grid = np.arange(len(self.layers))[None]
        own = np.array(tokens)[:, None]
        late = np.maximum(grid - own % (len(self.layers) + 1) - bool(choices.probe), 0)
        rank = 1 + np.minimum(late * 3, count - 1)
        other = (own + late) % count
        return IdentityWindow(
            tokens,
            self.layers,
            count,
            rank,
            1 / (1 + 0.3 * grid + 0 * own) - 0.4 * late,
            other,
            (other + 1) % count,
            {t.position: t.text for t in self._session.run.tokens},
        )

    def rates(self, choices: IdentityChoices, *, job: Job | None = None) -> list[Rate]:
        rank = self.window((0, 10**6), choices, job=job).rank
        return [
            Rate(layer, choices, int((column == 1).sum()), len(rank))
            for layer, column in zip(self.layers, rank.T, strict=True)
        ]

    def transfer(self, choices: IdentityChoices, *, job: Job | None = None) -> Transfer:
        n = len(self.layers)
        distance = abs(np.arange(n)[:, None] - np.arange(n))
        return Transfer(self.layers, 20, 1 - distance / n)

    def probes(self) -> list[ProbeInfo]:
        held_out = tuple(Rate(layer, choose(probe="ridge"), 9, 10, "held-out") for layer in "01")
        moved = Transfer(("emb", "0"), 10, np.eye(2), "held-out")
        recipe = {"corpus": "a.txt", "key": "k"}
        return [
            ProbeInfo(
                m, "embedding", "m", None, "float32", "", 9, recipe, f"{m}.x", held_out, moved
            )
            for m in self.methods
        ]


class FakeAttribution:
    """Shares that spread with depth; `refined` lists what was asked for."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.refined: list[AttributionChoices] = []
        self.error: InspectError | None = None
        self.done: set[AttributionChoices] = set()

    @property
    def layers(self) -> tuple[str, ...]:
        return self._session.identity.layers

    def refine(self, choices: AttributionChoices, *, job: Job | None = None) -> AttributionState:
        self._session._wait(job)
        if self.error is not None:
            raise self.error
        if self._session.model.stack in ("decoder", "cross"):
            raise InspectError("not of a decoder", "look at the encoder", ExitCode.USAGE)
        if job is not None:
            job.report("estimating attribution", 1, 2)
        self.refined.append(choices)
        self.done.add(choices)
        return self.state(choices)

    def state(self, choices: AttributionChoices) -> AttributionState:
        n = len(self._session.run.tokens)
        probes = 0 if choices.exact else choices.probes
        error = 0.05 / max(probes, 1) ** 0.5
        return AttributionState(
            probes, n * choices.exact, n, error, 3 * error, 0, "plain softmax in float32"
        )

    def shares(self, layer: int, choices: AttributionChoices) -> np.ndarray:
        if choices not in self.done:
            raise InspectError("not computed", "call refine", ExitCode.INPUT)
        n = len(self._session.run.tokens)
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        shares = np.exp(-abs(i - j) * 3.0 / (layer + 2)) * (1 + (j == 2))
        if self._session.model.causal:
            shares = np.tril(shares)
        return shares / shares.sum(1, keepdims=True)

    def mixing(self, layer: int, choices: AttributionChoices) -> Mixing:
        shares = self.shares(layer, choices)
        own = shares.diagonal()
        spread = np.quantile(own, [0, 0.25, 0.5, 0.75, 1]).tolist()
        not_main = float((own < shares.max(1)).mean())
        return Mixing(
            OwnShares(self.layers[layer + 1], *spread, not_main),
            own,
            0.2,
            0.3,
            (("1", 0.2, 0.3), ("2", 0.1, 0.1), ("3", 0.1, 0.1), ("4", 0.05, 0.05)),
            ((-1, 0.4), (0, 2.0), (1, 0.6)),
            (KindShares("special", 2, 0.3, 0.1), KindShares("word start", 9, 0.4, 0.9)),
        )

    def compare(
        self, layer: int, head: int, query: int, choices: AttributionChoices, variant: Variant
    ) -> Comparison:
        row = self.shares(layer, choices)[query]
        n = query + 1 if self._session.model.causal else len(row)
        raw, eff = (
            self._session._rows(name, layer, head, (query, query + 1))[0][:n]
            for name in ("attention", "effective")
        )
        return Comparison(tuple(range(n)), raw, eff, row[:n], 0.25, -0.5)


class FakeSession:
    """An Inspector: any size, encoder or decoder; `gate` holds computations until it is set."""

    def __init__(
        self,
        layers: int = 4,
        heads: int = 6,
        *,
        causal: bool = False,
        words: list[str] | None = None,
        name: str = "fake-model",
        length: int | None = None,
    ) -> None:
        self._words, self._length = words, length
        self._every: dict[Stack, FakeSession] = {}
        self.model = ModelInfo(
            name,
            "fake",
            layers,
            heads,
            heads,
            32,
            32 * heads,
            "cpu",
            "float32",
            "sdpa",
            causal,
            512,
        )
        self.identity = FakeIdentity(self)
        self.attribution = FakeAttribution(self)
        self.gate = threading.Event()
        self.gate.set()
        self.windows = 0
        self.short_of_memory: tuple[MemoryPlan, tuple[Keep, ...]] | None = None
        """What a text would need, and the ways that work."""
        self.limit: int | None = None
        """How many tokens the model takes."""
        self.run: Run
        self.analyse("the cat sat on the mat")

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
        self._wait(job)
        if self.short_of_memory is not None:
            plan, works = self.short_of_memory
            if keep is None:
                raise TooLarge(plan)
            if keep not in works:
                raise TooLarge(plan, keep)
        if decoder_text is not None and not self._every:
            raise InspectError("there is no decoder", "leave the text out", ExitCode.USAGE)
        if not text.strip():
            raise InspectError("the text is empty", "give a text", ExitCode.INPUT)
        words = self._words or text.split()
        if self._length is not None:
            words = [words[i % len(words)] for i in range(self._length)]
        names = ["[CLS]", *words, "[SEP]"][:max_tokens]
        if self.limit is not None and len(names) > self.limit:
            raise TooLong(len(names), self.limit)
        read = named(names)
        written = named(["[BOS]", *(decoder_text or "le chat ##on dort").split()])
        checks = (Check("row sums", True, 2e-16, 1e-6), Check("A V = o", True, 3e-7, 1e-4))
        full = len(words) + 2
        self.run = Run(
            text,
            read,
            checks,
            0.01,
            pair,
            *((full, len(names)) if len(names) < full else (None, None)),
            keep=keep or "device",
        )
        source = "greedy" if decoder_text is None else "given"
        for stack, session in self._every.items():
            session.run = replace(
                self.run,
                tokens=read if stack == "encoder" else written,
                looked_at=read if stack == "cross" else None,
                decoder_text=decoder_text or "le chaton dort",
                decoder_source=source,
            )
        return self.run

    @property
    def stacks(self) -> tuple[Stack, ...]:
        return tuple(self._every)

    def on(self, stack: Stack) -> FakeSession:
        if stack not in self._every:
            raise InspectError(f"no stack {stack}", "leave out --stack", ExitCode.USAGE)
        return self._every[stack]

    def length(self, unit: Unit = "token", axis: Axis = "query") -> int:
        return len(self._edges(unit, axis)) - 1

    def _edges(self, unit: Unit, axis: Axis = "query") -> list[int]:
        tokens = self.run.tokens if axis == "query" else self.run.key_tokens
        starts = [
            i
            for i, t in enumerate(tokens)
            if unit == "token" or i == 0 or t.word != tokens[i - 1].word
        ]
        return [*starts, len(tokens)]

    def _rows(self, name: str, layer: int, head: int, rows: tuple[int, int]) -> np.ndarray:
        """(rows, s): peaks that wander with the head; the effective part has negatives."""
        s = len(self.run.key_tokens)
        q, k = np.arange(*rows)[:, None], np.arange(s)[None]
        logits = -0.3 * np.abs(q - k + head - 2) + np.cos(k * (layer + 1)) + 2.0 * (k == 0)
        visible = k <= q if self.model.causal else np.ones_like(logits, dtype=bool)
        raw = np.exp(logits) * visible
        raw /= raw.sum(1, keepdims=True)
        null = 1.2 * raw * np.sin(k + q + layer) + 0.2 * raw
        cells = {"attention": raw, "null": null, "effective": raw - null}[name]
        return np.where(visible, cells, np.nan)

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
        self._wait(job)
        if get(map_name).axes != "query x key" or not 0 <= layer < self.model.layers:
            raise InspectError("no such map or layer", "choose another", ExitCode.USAGE)
        self.windows += 1
        edges = self._edges(unit)
        token_rows = (edges[rows[0]], edges[rows[1]])
        if map_name == "attribution":
            values = self.attribution.shares(layer, attribution)[slice(*token_rows)]
            if self.model.causal:
                q, k = np.arange(*token_rows)[:, None], np.arange(values.shape[1])
                values = np.where(k <= q, values, np.nan)
        else:
            values = self._rows(map_name, layer, head, token_rows)
        visible = ~np.isnan(values)
        filled = np.nan_to_num(values)
        column_starts = self._edges(unit, "key")[:-1]
        row_starts = [edge - token_rows[0] for edge in edges[rows[0] : rows[1]]]
        sizes = np.diff([*row_starts, len(values)])[:, None]
        filled = np.add.reduceat(np.add.reduceat(filled, column_starts, 1), row_starts, 0) / sizes
        visible = np.logical_or.reduceat(
            np.logical_or.reduceat(visible, column_starts, 1), row_starts, 0
        )
        part = slice(*columns)
        cells = np.where(visible, filled, np.nan)[:, part]
        return Window(map_name, layer, head, rows, columns, cells, visible[:, part])

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
        n, m = self.length(unit), self.length(unit, "key")
        found = self.window(
            map_name, layer, head, (0, n), (0, m), unit=unit, attribution=attribution, job=job
        )
        size = min(shape[0], n), min(shape[1], m)
        rows, columns = np.arange(size[0]) * n // size[0], np.arange(size[1]) * m // size[1]
        return Overview(*(part[rows][:, columns] for part in (found.values, found.visible)))

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
        spans = ((query, query + 1), (key, key + 1))
        raw, eff = (
            float(self.window(name, layer, head, *spans, unit=unit).values[0, 0])
            for name in ("attention", "effective")
        )
        return Cell(raw, eff, raw - eff, raw == raw, 3, self.length(unit, "key"))

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
        n, m = self.length(unit), self.length(unit, "key")
        values = self.window(
            map_name, layer, head, (0, n), (0, m), unit=unit, attribution=attribution
        ).values
        if without_special:
            values = values[1:-1, 1:-1]
        finite = values[np.isfinite(values)]
        return Extent(float(finite.min()), float(finite.max()))

    def summaries(
        self, layer: int, *, variant: Variant = "output", job: Job | None = None
    ) -> list[HeadSummary]:
        self._wait(job)
        n = self.length()
        found = []
        for head in range(self.model.heads):
            raw = self._rows("attention", layer, head, (0, n))
            share = (head * 5 + layer) % 7 / 7
            found.append(
                HeadSummary(
                    layer=layer,
                    head=head,
                    rank=min(32, n),
                    visible_keys=n,
                    null_dimension=max(n - 32, 0),
                    identifiable=n <= 32,
                    null_share=share,
                    correlation=1 - share,
                    entropy=share / 2,
                    negative_share=0.25,
                    first_token_share=share / 3,
                    row_sum_min=0.1,
                    row_sum_max=0.9,
                    output_error=1e-7,
                    thumbnail=raw[:24, :24],
                )
            )
        return found

    def provenance(self) -> dict[str, object]:
        known = {
            "model": self.model.name,
            "tokens": len(self.run.tokens),
            "versions": {"fake": "1"},
        }
        return known if self.model.stack is None else {**known, "stack": self.model.stack}

    def _wait(self, job: Job | None) -> None:
        while not self.gate.wait(0.01):
            if job is not None:
                job.check()

    def renamed(self, name: str) -> FakeSession:
        self.model = replace(self.model, name=name)
        return self


def named(names: list[str]) -> tuple[Token, ...]:
    """Tokens of these names; those in brackets are special."""
    tokens = []
    word = -1
    for position, token in enumerate(names):
        word += not token.startswith("##")
        special = token in ("[CLS]", "[SEP]", "[BOS]")
        tokens.append(Token(position, 100 + position, "Ġ" + token, token, special, word))
    return tuple(tokens)


def encoder_decoder(**settings: object) -> FakeSession:
    """The encoder of an encoder-decoder, which has more layers and heads than its decoder."""
    every: dict[Stack, FakeSession] = {}
    for stack in STACKS:
        shape = (4, 6) if stack == "encoder" else (3, 5)
        session = FakeSession(*shape, causal=stack == "decoder", **settings)
        session.model = replace(session.model, stack=stack)
        session._every = every
        every[stack] = session
    every["encoder"].analyse("the cat sat on the mat")
    return every["encoder"]
