"""Progress of a command without a screen, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tui_attn.progress import Job, Progress


class Reporter:
    """A job whose progress is drawn on standard error, where that is a terminal."""

    def __enter__(self) -> Job:
        if sys.stderr is None or not sys.stderr.isatty():
            self._close: Callable[[], None] = lambda: None
            return Job()
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # Rich would send what is written to a pipe to the terminal instead.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        task = bar.add_task("starting", total=None)
        bar.start()
        self._close = bar.stop

        def show(report: Progress) -> None:
            bar.update(
                task, description=report.phase, completed=report.done, total=report.total or None
            )

        return Job(show)

    def __exit__(self, *_: object) -> None:
        self._close()
