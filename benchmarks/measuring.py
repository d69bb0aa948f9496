"""How the benchmarks time, compare and report."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Row = dict[str, object]


def row(what: str, value: float, unit: str, aim: str = "-") -> Row:
    """A line of a table."""
    return {"what": what, "value": round(value, 3), "unit": unit, "aim": aim}


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ratio(ones: list[float], others: list[float]) -> float:
    """The median of the ratios of measurements that were made in pairs."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def resident_bytes() -> int:
    """The resident memory of this process now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def forget_peak() -> None:
    """Let `/proc/self/status` count the largest resident memory from here on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_since() -> int:
    """The largest resident memory since `forget_peak`, bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def in_process(module: str, *arguments: str, **environment: str) -> list[float]:
    """The numbers that `python -m module arguments` prints, in a process of its own."""
    command = [sys.executable, "-m", module, *arguments]
    around = os.environ | environment
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=around)
    return [float(number) for number in done.stdout.split()[-1].split(",")]
