"""Corpora -> sentences, from every kind of source, and a sentence for every fault."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_attn.errors import ExitCode, InspectError
from tui_attn.probes.corpus import sentences, split

PROSE = "The first sentence stands here. The second one, Mr. smith says, goes on! A third follows?"


def test_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\ufeff" + PROSE + "\n\nA new paragraph\nover two lines\n", encoding="utf-8")
    assert list(sentences(file)) == [
        "The first sentence stands here.",
        "The second one, Mr. smith says, goes on!",
        "A new paragraph over two lines",
    ]  # `A third follows?` is too short to count


def test_scripts_without_spaces() -> None:
    text = "这是第一个句子它有足够多的字可以被算作一个句子。这是第二个句子它也有足够多的字可以算。"
    assert len(list(split(text))) == 2


def test_a_folder_in_order_and_each_sentence_once(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text(PROSE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.md").write_text(PROSE + " The last sentence comes from here.")
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe")
    assert len(list(sentences(tmp_path))) == 3


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [{"text": "A sentence under text is here."}, {"sentence": "One under sentence is here."}]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert len(list(sentences(file))) == 2
    file.write_text(json.dumps({"premise": "Somebody named this field, so it is."}))
    assert len(list(sentences(file, "premise"))) == 1


@pytest.mark.parametrize(
    "name,content,message",
    [
        ("a.txt", "Ein Satz über Größe".encode("latin-1"), "not UTF-8"),
        ("a.txt", "sentence".encode("utf-16"), "not UTF-8"),
        ("a.jsonl", b'{"text": "fine and long enough to be a sentence"}\n{"text": ', "line 2"),
        ("a.jsonl", b"[1, 2]", "no text under"),
        ("a.jsonl", b'{"label": 3}', "no text under"),
        ("a.jsonl", b'{"text": 3}', "no text under"),
        ("a.jsonl", b"[" * 100_000, "line 1"),
    ],
)
def test_files_that_are_no_corpus(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InspectError, match=message) as caught:
        list(sentences(tmp_path / name))
    assert caught.value.code == ExitCode.USAGE


def test_a_folder_without_text_and_a_file_that_is_gone(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "holds no text"), (tmp_path / "gone.txt", "no such file")):
        with pytest.raises(InspectError, match=message):
            list(sentences(path))


def test_python_brings_prose_of_its_own() -> None:
    found = list(sentences(None))
    assert len(found) > 500
    assert all("\n" not in sentence for sentence in found)


def test_reading_stops_where_nobody_asks_for_more(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "\n\n".join(f"Sentence {n} is a rather long one." for n in range(99))
    )
    (tmp_path / "b.txt").write_bytes(b"\xff never read")
    assert len(list(islice(sentences(tmp_path), 50))) == 50


def test_a_large_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(f"Sentence number {n} stands on one long line." for n in range(400))
    (tmp_path / "a.txt").write_text(text)
    whole = list(sentences(tmp_path / "a.txt"))
    monkeypatch.setattr("tui_attn.probes.corpus._CHUNK", 97)
    assert list(sentences(tmp_path / "a.txt")) == whole
    assert len(whole) == 400


@given(st.text(max_size=400))
def test_any_text_is_split_without_loss_of_words(text: str) -> None:
    kept = " ".join(split(text)).split()
    assert [word for word in text.split() if word in kept] or not kept
    assert all(sentence == sentence.strip() and sentence for sentence in split(text))
