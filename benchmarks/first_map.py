"""Time to the first map, against what nobody can avoid: imports, weights, a forward pass."""

from __future__ import annotations

import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from benchmarks.measuring import Row, row

FLOOR = """
import torch
from transformers import AutoModel, AutoTokenizer
from tui_attn import demo as text
from tui_attn.model import demo
folder = str(demo.installed_folder())
tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
with torch.inference_mode():
    model(**tokenizer(text.TEXT, return_tensors="pt"))
"""
PROGRAM = Path(sys.executable).parent / "attn-inspect"


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: floor and program in turn, so that drift hits both."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}
    floors, maps, frames, helps = [], [], [], []
    for number in range(runs + 1):
        floor = _seconds([sys.executable, "-c", FLOOR], environment)
        frame, first = _screen(environment)
        help_time = _seconds([str(PROGRAM), "--help"], environment)
        if number:  # the first round warms the disk's cache
            floors.append(floor)
            frames.append(frame)
            maps.append(first)
            helps.append(help_time)
    ratios = [one / other for one, other in zip(maps, floors, strict=True)]
    return [
        row("first map on the screen / floor", statistics.median(ratios), "times", "at most 1.3"),
        row("floor: imports, weights, one pass", statistics.median(floors), "s", "-"),
        row("first map on the screen", statistics.median(maps), "s", "-"),
        row("first frame", statistics.median(frames), "s", "at most 0.5"),
        row("attn-inspect --help", statistics.median(helps), "s", "at most 0.3"),
    ]


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def _screen(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first frame and to the first map, read off a pseudo-terminal."""
    terminal, inner = pty.openpty()
    ioctl(inner, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(PROGRAM)], stdin=inner, stdout=inner, stderr=inner, env=environment, close_fds=True
    )
    os.close(inner)
    frame = _until(terminal, b"Layers") - started
    first = _until(terminal, b"effective") - started  # the detail line: the cells are there
    os.write(terminal, b"q")
    _drain(terminal, process)
    os.close(terminal)
    return frame, first


def _until(terminal: int, text: bytes) -> float:
    seen = b""
    while text not in seen:
        if not select.select([terminal], [], [], 120)[0]:
            raise TimeoutError(f"{text!r} does not appear")
        seen = seen[-200:] + os.read(terminal, 65536)
    return time.perf_counter()


def _drain(terminal: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                os.read(terminal, 65536)
            except OSError:
                break
    process.wait()
