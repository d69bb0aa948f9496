"""What the lines and panes say: plain functions from answers to text and segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tui_attn.answers import Cell, Check, DecoderSource, HeadSummary, ModelInfo, Run, Token
from tui_attn.answers.memory import Keep
from tui_attn.progress import Progress
from tui_attn.render import cells, grid
from tui_attn.render.grid import Look
from tui_attn.tui.keys import ACTIONS
from tui_attn.tui.state import Statistic
from tui_attn.tui.widgets.panes import Entry

_STRONG = Style(bold=True)
_QUIET = Style(dim=True)
_ALARM = Style(bold=True, reverse=True)


def status(model: ModelInfo | None, run: Run | None, head_error: float | None) -> tuple[Text, Text]:
    """The status line: what made the numbers, and whether they hold."""
    left = Text(" attn-inspect", style=_STRONG)
    if model is None:
        return left, Text("no model yet ", style=_QUIET)
    for alarm in _alarms(run):  # first, so that a narrow screen never cuts them away
        left.append("  ")
        left.append(alarm, style=_ALARM)
    name = cells.visible(model.name.rstrip("/").rpartition("/")[2] or model.name)
    left.append(f"  {name}", style=Style(bold=False))
    precision = model.dtype + (f" {model.quantised}" if model.quantised else "")
    left.append(f"  {model.device} {precision} {model.kernel}", style=_QUIET)
    if run is None:
        return left, Text()
    left.append(_KEPT[run.keep], style=_QUIET)
    left.append(f"  {_tokens(run)}")
    if model.stack not in (None, "encoder") and run.decoder_source != "given":
        left.append(f", decoder {run.decoder_source}", style=_QUIET)
    return left, Text(_passed(run.checks, model, head_error) + " ", style=_QUIET)


DECODER_READS: dict[DecoderSource, str] = {
    "greedy": "what the model itself writes",
    "copied": "the text itself, since the model cannot write",
}
"""Where a decoder's text is from, if nobody gave one."""


def _tokens(run: Run) -> str:
    """How many there are, and how many there were before the text was cut."""
    if run.looked_at is not None:
        return f"{len(run.tokens)} x {len(run.looked_at)} tokens"
    whole = run.truncated_from is not None and len(run.tokens) == run.cut_to
    return f"{len(run.tokens)} tokens" + (f" of {run.truncated_from}" if whole else "")


_KEPT: dict[Keep, str] = {
    "device": "",
    "host": ", layers on the host",
    "recompute": ", layers recomputed",
}


def _alarms(run: Run | None) -> list[str]:
    if run is None:
        return []
    failed = [
        f"FAILED {check.name}: {check.error:.0e} {check.note}".rstrip()
        for check in run.checks
        if not check.ok
    ]
    counted = [(run.nan_count, "NaN"), (run.inf_count, "inf")]
    return [*(f"{count} {name}" for count, name in counted if count), *failed]


def _passed(checks: Sequence[Check], model: ModelInfo, head_error: float | None) -> str:
    parts = [_short(check) for check in checks if check.ok]
    if head_error is not None:
        parts.append(f"A_eff V = o {head_error:.0e}")
    if not model.causal:
        parts.insert(1, "causal n/a")
    return "  ".join(parts)


def _short(check: Check) -> str:
    return f"{check.name} {check.error:.0e}" if check.error > 0 else f"{check.name} ok"


def note(token: Token, segments: Sequence[str] = ()) -> str:
    """What a label does not say: the character that it is a part of, its segment.

    Args:
        token: The token.
        segments: Names of the segments, where there are several.
    """
    parts = [f"{one.part}/{one.of} of {cells.visible(one.character)}" for one in token.pieces]
    return " ".join([*parts, *segments[token.segment : token.segment + 1]])


def detail(
    labels: tuple[Sequence[str], Sequence[str]],
    cursor: tuple[int, int],
    cell: Cell | None,
    identifiable: str,
    notes: tuple[str, str] = ("", ""),
) -> tuple[Text, Text]:
    """The detail line: the cursor's cell in numbers.

    Args:
        labels: Of all queries and of all keys, tokens or words.
        cursor: Query and key.
        cell: The numbers, None while they are on their way.
        identifiable: What is said about the query.
        notes: What else is known of the query and the key.
    """
    if not labels[0]:
        return Text(), Text()
    query, key = cursor
    left = Text(" query ", style=_QUIET)
    left.append(f"{query} {_trimmed(labels[0][query])}", style=_STRONG)
    left.append(f" {notes[0]}" if notes[0] else "", style=_QUIET)
    left.append(" → key ", style=_QUIET)
    left.append(f"{key} {_trimmed(labels[1][key])}", style=_STRONG)
    left.append(f" {notes[1]}" if notes[1] else "", style=_QUIET)
    if cell is None:
        return left, Text("… ")
    if not cell.visible_keys:
        left.append("   this query sees no key: its row is fully masked", style=_QUIET)
        return left, Text()
    if not cell.visible:
        left.append("   not visible to this query", style=_QUIET)
        return left, Text(identifiable + " ", style=_QUIET)
    for name, value in (("raw", cell.raw), ("effective", cell.effective), ("null", cell.null)):
        left.append(f"  {name} ", style=_QUIET)
        left.append(f"{value:.3f}", style=_STRONG)
    if cell.missing:
        left.append("  ∅ ", style=_QUIET)
        left.append(f"{cell.missing:.3f}", style=_STRONG)
    return left, Text(identifiable + " ", style=_QUIET)


def identifiability(cell: Cell, width: int) -> str:
    """Whether this query's attention can be told from its output, short on narrow screens."""
    dimension, keys = cell.null_dimension, cell.visible_keys
    if width < 110:
        return f"null {dimension}/{keys}" if dimension else "id yes"
    if dimension == 0:
        return f"identifiable yes: {keys} keys, no null space"
    return f"identifiable no: null space {dimension} of {keys}"


def _trimmed(label: str) -> str:
    return cells.fit(label, 14).rstrip()


def layer_entries(
    model: ModelInfo | None,
    summaries: Mapping[int, Sequence[HeadSummary]],
    statistic: Statistic,
    width: int,
    look: Look,
) -> list[Entry]:
    """One line a layer: its number, and the heads' statistic as bars where it has any."""
    entries: list[Entry] = []
    for layer in range(model.layers) if model else ():
        if model and layer in model.without_attention:
            entries.append([[Segment(f"L{layer:<3} no attention", _QUIET)]])
            continue
        found = summaries.get(layer)
        values = [statistic.position(summary) for summary in found] if found else []
        bars = grid.spark(values, max(width - 6, 1), ascii=look.ascii)
        entries.append([[Segment(f"L{layer:<3} "), Segment(bars, _QUIET)]])
    return entries


def head_entries(
    summaries: Sequence[HeadSummary],
    statistic: Statistic,
    width: int,
    height: int,
    look: Look,
) -> list[Entry]:
    """One entry a head: identifiability, the statistic and a thumbnail.

    Args:
        summaries: In the order in which they are listed.
        statistic: The one that is shown.
        width: Cells of the pane.
        height: Lines of an entry.
        look: How thumbnails are drawn.
    """
    return [_head_entry(summary, statistic, width, height, look) for summary in summaries]


def _head_entry(
    summary: HeadSummary, statistic: Statistic, width: int, height: int, look: Look
) -> Entry:
    rank = f"{summary.rank}/{summary.visible_keys}"
    first = f"H{summary.head:<2} {rank:>7} {statistic.text(summary)} "
    mark = ("id" if summary.identifiable else "not id") if height > 1 else ""
    second = f"    {mark:>7}       "[: len(first)]
    thumb_width = max(width - len(first) - 2, 0)
    picture = grid.thumbnail(summary.thumbnail, thumb_width, height, look) if thumb_width else []
    lines: Entry = []
    for number in range(height):
        text = first if number == 0 else second if number == 1 else " " * len(first)
        lines.append([Segment(text), *(picture[number] if picture else [])])
    return lines


def footer(width: int, subject: Literal["footer", "identity", "attribution"]) -> Text:
    """The footer: at most eight keys, as many as fit.

    Args:
        width: Cells.
        subject: Which of an action's names are meant: `footer` is that of heads.
    """
    line = Text()
    for action in ACTIONS:
        name = getattr(action, subject)
        if not name:
            continue
        part = f" {action.shown} {name} "
        if len(line.plain) + len(part) > width:
            break
        line.append(f" {action.shown}", style=_STRONG)
        line.append(f" {name} ", style=_QUIET)
    return line


def progress(phase: Progress, elapsed: float) -> str:
    """Where a long job is."""
    steps = f" {phase.done}/{phase.total}" if phase.total else ""
    return f"{phase.phase}{steps}  {elapsed:.0f} s"


def duration(seconds: float) -> str:
    """A time to wait in words: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
