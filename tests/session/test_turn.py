"""Long work gives way to whoever answers the screen."""

from __future__ import annotations

import threading
import time

import pytest

from tui_attn.errors import Cancelled
from tui_attn.progress import Job
from tui_attn.session.turn import Turn

_LONG = 10.0


def test_a_window_waits_for_one_block_and_not_for_the_whole_work() -> None:
    turn, started, stop = Turn(), threading.Event(), threading.Event()
    answered_during: list[bool] = []

    def long_work() -> None:
        pause = turn.between_blocks(Job())
        with turn:
            while not stop.is_set():
                started.set()
                time.sleep(0.001)
                pause()

    worker = threading.Thread(target=long_work, daemon=True)
    worker.start()
    assert started.wait(_LONG)
    for _ in range(20):
        with turn:
            answered_during.append(worker.is_alive())
    stop.set()
    worker.join(_LONG)
    assert answered_during == [True] * 20
    assert not worker.is_alive()


def test_only_one_thread_computes_at_a_time() -> None:
    turn, inside, most = Turn(), [0], [0]

    def work() -> None:
        pause = turn.between_blocks(Job())
        for _ in range(50):
            with turn, turn:  # again and again by the same thread
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1
                pause()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LONG)
    assert not any(thread.is_alive() for thread in threads)
    assert most == [1]


def test_cancelled_work_leaves_at_the_next_block() -> None:
    turn, job = Turn(), Job()
    job.cancel()
    with turn, pytest.raises(Cancelled):
        turn.between_blocks(job)()
    with turn:
        pass
