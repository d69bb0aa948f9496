"""Files of a researcher's own text, by kind: read as what they are, or one sentence."""

from __future__ import annotations

import codecs
import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_attn.commands import texts
from tui_attn.errors import ExitCode, InspectError

TEXT = "Zoë sat\non 日本 👩‍👩‍👧."


def read(data: bytes, folder: Path) -> str | None:
    (folder / "t.txt").write_bytes(data)
    return texts.read_text(None, str(folder / "t.txt"))


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r\n").encode("utf-16"),
    ],
)
def test_encodings_that_say_what_they_are_and_line_ends(data: bytes, tmp_path: Path) -> None:
    assert read(data, tmp_path) == TEXT


@pytest.mark.parametrize(
    "data,text",
    [
        (b"a\0b c", "a\0b c"),
        (b"\0", "\0"),
        (b"a\rb", "a\rb"),
        ("a\ufeffb".encode(), "a\ufeffb"),
        (b"x", "x"),
        (b"\x1b[2Jx\x07\x7f", "\x1b[2Jx\x07\x7f"),
    ],
)
def test_odd_characters_stay(data: bytes, text: str, tmp_path: Path) -> None:
    assert read(data, tmp_path) == text


@pytest.mark.parametrize(
    "data,words",
    [
        (b"Zo\xeb", "UTF-8 (byte 2)"),
        (b"\xef\xbb\xbfZo\xeb", "UTF-8 (byte 5)"),
        (b"\xed\xa0\x80", "UTF-8 (byte 0)"),
        (b"\xff\xfea", "UTF-16 (byte 2)"),
        (b"\xff\xfe\0\0a", "UTF-32 (byte 4)"),
        ("plain words".encode("utf-16-le"), "UTF-16 without"),
        ("plain words".encode("utf-16-be"), "UTF-16 without"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "UTF-8 (byte 0)"),
    ],
)
def test_what_is_no_text_is_told_by_kind(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InspectError) as caught:
        read(data, tmp_path)
    assert words in str(caught.value)
    assert "iconv" in caught.value.hint
    assert caught.value.code == ExitCode.USAGE


@given(st.binary(max_size=60))
def test_any_bytes_are_a_text_or_a_sentence(data: bytes) -> None:
    try:
        assert "\r\n" not in texts.decoded(data)
    except InspectError as error:
        assert error.code == ExitCode.USAGE


@given(st.text(max_size=60))
def test_any_text_reads_back(text: str) -> None:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    data = text.encode()
    if data.count(0) == 0:
        assert texts.decoded(data) == text
    assert texts.decoded(codecs.BOM_UTF8 + data) == text


@pytest.mark.parametrize("data", [b"", b" \n\t", codecs.BOM_UTF8, b"\xff\xfe", b"\r\n"])
def test_an_empty_file_fails_before_any_model_is_loaded(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="is empty") as caught:
        read(data, tmp_path)
    assert caught.value.code == ExitCode.INPUT


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(texts.read_text, None, str(pipe))
        pipe.write_bytes(TEXT.encode())
        assert reading.result(10) == TEXT


def test_a_file_that_must_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InspectError, match=r"cannot read .*: permission denied; check --text-file"):
        texts.read_text(None, str(tmp_path / "secret"))


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode("utf-16"))))
    assert texts.read_text("-", None) == TEXT
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" ")))
    with pytest.raises(InspectError, match="standard input is empty"):
        texts.read_text(None, "-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InspectError, match="closed"):
        texts.read_text("-", None)
