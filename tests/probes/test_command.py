"""`probe fit` and `probe list` as people type them, over a tiny model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes import toys
from tui_attn import cli

FAST = ("--method", "ridge,linear-l2", "--tokens", "400", "--epochs", "3")


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toys._folder(str(tmp_path_factory.getbasetemp())))


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "c.txt").write_text(toys.corpus())
    return str(tmp_path / "c.txt")


def test_fit_list_and_use(
    model: str, corpus: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["probe", "list"]) == 0
    assert "probe fit" in capsys.readouterr().err
    assert cli.main(["probe", "fit", model, "--corpus", corpus, *FAST]) == 0
    out, err = capsys.readouterr()
    assert "naive cosine by position" in out and "linear-l2 l2 by id" in out
    assert err.count("trained on") == 2
    assert cli.main(["probe", "fit", model, "--corpus", corpus, *FAST]) == 0
    assert capsys.readouterr().err.count("is there already") == 2
    assert cli.main(["probe", "list"]) == 0
    assert capsys.readouterr().out.count("target embedding") == 2
    text = "the cat sat on a mat while it rained"
    export = ["export", model, text, "--map", "identity", "--probe", "linear-l2"]
    assert cli.main([*export, "-o", str(tmp_path / "a.json")]) == 0
    assert '"metric": "l2"' in (tmp_path / "a.json").read_text()
    assert cli.main([*export, "--summary", "rates"]) == 0
    assert "held-out" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments,words",
    [
        (("--corpus", "gone.txt"), "no file or folder"),
        (("--method", "knn"), "no method"),
        (("--target", "previous"), "invalid choice"),
        (("--learning-rate", "fast"), "not a number"),
        (("--tokens", "0"), "whole number"),
        (("--corpus", "one.txt"), "at least 20"),
        (("--corpus", "latin.txt"), "iconv"),
        (("--corpus", "empty.txt"), "no sentence"),
    ],
)
def test_wrong_usage(
    model: str,
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text("Only this one sentence stands in the corpus.")
    Path("latin.txt").write_bytes("Größe".encode("latin-1"))
    Path("empty.txt").touch()
    assert cli.main(["probe", "fit", model, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_an_interrupted_fit_is_taken_up_again(model: str, corpus: str, tmp_path: Path) -> None:
    """Ctrl-C while it trains: one sentence, and the same command goes on."""
    command = [sys.executable, "-m", "tui_attn", "probe", "fit", model, "--corpus", corpus]
    command += ["--method", "linear-cosine", "--tokens", "400"]
    process = subprocess.Popen(
        [*command, "--epochs", "100000", "--learning-rate", "1e-3"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    cache = Path(os.environ["XDG_CACHE_HOME"])
    try:
        for _ in range(600):
            if list(cache.rglob("tokens.npz")) or process.poll() is not None:
                break
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in err
    assert process.returncode in (0, 130)
    if process.returncode == 130:
        assert "interrupted" in err
        assert list(cache.rglob("tokens.npz"))
