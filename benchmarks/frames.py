"""What a key press costs over a pseudo-terminal: time to the finished frame, and bytes.

The installed program reads a text on a random GPT-2 of 4 layers x 12 heads x 64, without a wait
for the terminal. A frame is finished when nothing more comes for a while; its time is that of the
last byte.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from statistics import quantiles
from termios import TIOCSWINSZ

from benchmarks.measuring import Row, row

COLUMNS, LINES = 200, 50
LENGTHS = (512, 8192)
QUIET = 0.15
"""Seconds without a byte after which a frame is finished."""
HELD, REPEAT = 2.0, 1 / 30
"""How long a key is held, and how long until it comes again."""
PROGRAM = Path(sys.executable).parent / "attn-inspect"
MOVES = ["j", "l", "j", "l", "k", "h"]
HEADS = ["]", "]", "[", " ", "]", " ", "2", "3", "1"]


@dataclass(frozen=True)
class Frame:
    """What followed a key press: seconds to the last byte, and how many bytes."""

    seconds: float
    size: int


class Screen:
    """The program in a pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self._process = process
        self._terminal = terminal

    def until_quiet(self, quiet: float = QUIET) -> Frame:
        """What is written from now on until nothing more comes for so many seconds."""
        started = last = time.perf_counter()
        size = 0
        while select.select([self._terminal], [], [], quiet)[0]:
            size += len(os.read(self._terminal, 1 << 20))
            last = time.perf_counter()
        return Frame(last - started, size)

    def press(self, key: str) -> Frame:
        """Press a key."""
        os.write(self._terminal, key.encode())
        return self.until_quiet()

    def hold(self, key: str) -> Frame:
        """Hold a key, and let go: what is still written afterwards."""
        end = time.perf_counter() + HELD
        while time.perf_counter() < end:
            os.write(self._terminal, key.encode())
            pressed = time.perf_counter()
            while (rest := pressed + REPEAT - time.perf_counter()) > 0:
                if select.select([self._terminal], [], [], rest)[0]:
                    os.read(self._terminal, 1 << 20)
        return self.until_quiet()

    def wait(self) -> None:
        """Until the first map stands and the statistics of the heads are there."""
        for _ in range(600):
            if self.until_quiet(2.0).size == 0:
                return


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _save_model(Path(folder))
        for length in LENGTHS:
            text = Path(folder) / "text.txt"
            text.write_text(" ".join(f"w{number * 7 % 997}" for number in range(length)))
            with _program(folder, "--text-file", str(text)) as screen:
                screen.wait()
                rows += _rows(screen, length, runs)
    return rows


def _rows(screen: Screen, length: int, runs: int) -> Iterator[Row]:
    where = f"s = {length:,}, {COLUMNS} x {LINES}"
    screen.press("10j10l")
    moves = _frames(screen.press, MOVES * 6 * runs)
    heads = _frames(screen.press, HEADS * 4 * runs)
    held = [screen.hold(key) for key in "jlkh"]
    yield row(f"cursor move to finished frame, p95, {where}", _p95(moves) * 1e3, "ms", "at most 30")
    yield row(f"another head or map, p95, {where}", _p95(heads) * 1e3, "ms", "at most 30")
    yield row(f"cursor move, most bytes, {where}", _most(moves), "bytes", "at most 2048")
    yield row(f"another head or map, most bytes, {where}", _most(heads), "bytes", "at most 40960")
    behind = max(frame.seconds for frame in held)
    yield row(f"screen still behind after {HELD:g} s of a held key", behind * 1e3, "ms")


def _frames(press: Callable[[str], Frame], keys: list[str]) -> list[Frame]:
    return [press(key) for key in keys]


def _p95(frames: list[Frame]) -> float:
    return quantiles([frame.seconds for frame in frames], n=20)[-1]


def _most(frames: list[Frame]) -> int:
    return max(frame.size for frame in frames)


def _save_model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2Model, PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(997)} | {"[UNK]": 997}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    size = {"n_layer": 4, "n_head": 12, "n_embd": 768, "vocab_size": 998}
    ends = {"bos_token_id": 997, "eos_token_id": 997}
    GPT2Model(GPT2Config(**size, **ends, n_positions=max(LENGTHS))).save_pretrained(folder)


@contextmanager
def _program(*arguments: str) -> Iterator[Screen]:
    terminal, far_end = pty.openpty()
    ioctl(far_end, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(
        [str(PROGRAM), *arguments],
        stdin=far_end,
        stdout=far_end,
        stderr=far_end,
        env=environment,
        start_new_session=True,
    )
    os.close(far_end)
    try:
        yield Screen(process, terminal)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        os.close(terminal)


if __name__ == "__main__":
    for found in measure(1):
        print(found)
