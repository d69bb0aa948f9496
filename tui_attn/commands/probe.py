"""`probe fit` and `probe list`: trained maps from hidden states back to their tokens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui_attn.answers import ModelRequest
from tui_attn.commands.reporter import Reporter
from tui_attn.commands.streams import say, tidy_end
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model.source import resolve
from tui_attn.render.cells import visible
from tui_attn.selection import layer_name

if TYPE_CHECKING:
    from tui_attn.answers.identity import ProbeInfo
    from tui_attn.probes.recipe import Recipe


def fit(
    request: ModelRequest, corpus: str | None, field: str | None, recipe: Recipe, again: bool
) -> int:
    """Train probes and save them.

    Raises:
        InspectError: With the exit code of whatever cannot be had.
    """
    resolve(request)  # a wrong name fails before torch is imported
    path = None if corpus is None else Path(corpus).expanduser()
    if path is not None and not path.exists():
        raise InspectError(f"there is no file or folder {path}", "check --corpus", ExitCode.USAGE)
    with tidy_end(), Reporter() as job:
        job.report("loading torch and transformers")
        from tui_attn.model.loading import load
        from tui_attn.probes.fit import Corpus
        from tui_attn.probes.fit import fit as train

        loaded = load(request, job)
        train(loaded, Corpus(path, field), recipe, again=again, job=job, tell=_tell)
    return ExitCode.DONE


def _tell(info: ProbeInfo, fresh: bool) -> None:
    """One line a probe, as soon as it can be used."""
    state = "trained on" if fresh else "is there already (--force trains it anew), trained on"
    say(f"{info.method} {state} {info.tokens} tokens: {info.path}")
    sys.stdout.write(_rates(info))
    sys.stdout.flush()


def listing() -> int:
    """List the probes on this machine."""
    from tui_attn.probes import store

    found = [info for info, _ in store.saved()]
    for info in found:
        revision = f" at {info.revision}" if info.revision else ""
        sys.stdout.write(
            f"{info.method}  {visible(info.model)}{revision}  {info.dtype}  target {info.target}  "
            f"{info.tokens} tokens of {visible(str(info.recipe['corpus']))}  {info.made}\n"
            f"{_rates(info)}  {visible(info.path)}\n"
        )
    if not found:
        say("no probes found; make them with attn-inspect probe fit MODEL.")
    return ExitCode.DONE


def _rates(info: ProbeInfo) -> str:
    """The rates on held-out sentences, a line a method, naive first."""
    lines: dict[str, list[str]] = {}
    for rate in info.held_out:
        choices = rate.choices
        name = f"{choices.method} {choices.metric} by {choices.match}"
        lines.setdefault(name, []).append(f"{layer_name(rate.layer)} {rate.rate:.3f}")
    return "".join(f"  {name:<30}  {'  '.join(rates)}\n" for name, rates in lines.items())
