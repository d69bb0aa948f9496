"""Any text and any bytes, through tokens and labels into every export of every map."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fakes import FakeSession
from tests.model import tiny
from tui_attn.errors import InspectError
from tui_attn.export import FORMATS, ExportRequest, export_stream
from tui_attn.model import tokens
from tui_attn.render import cells
from tui_attn.selection import parse
from tui_attn.tui.state import LABEL_MODES, unit_labels

TOKENIZERS = {
    "byte level": tiny.byte_level_tokenizer(),
    "byte fallback": tiny.byte_fallback_tokenizer(),
    "words": tiny.word_tokenizer("the cat"),
}
NASTY = (
    *("\x1b]52;c;YQ==\x07", "\x9b2J", "\u202e", "\u2060", "\u3164", "e\u0301", "中"),
    *("👨\u200d👩\u200d👧", "🇳🇱", "⚠\ufe0f", "[/INST]", "</pre>", "]]>", "<script>", "&amp;"),
    *("=1+1", "|", "\\", "`", "$", "\r\n"),
)
TEXTS = st.one_of(
    st.text(st.characters(codec=None), min_size=1, max_size=12),
    st.binary(min_size=1, max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join),
)
WHOLE = st.characters(codec="utf-8", exclude_characters="\n\t \u2581·⏎⇥⟨⟩")
MAPS = ("effective", "heads", "identity", "attribution")
NAMED = ("_token", "_text")
DANGEROUS = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def session_of(text: str, tokenizer: str) -> FakeSession:
    """A session over the tokens of a text; of another one where it has none."""
    session = FakeSession(2, 1)
    try:
        encoded = tokens.encode(TOKENIZERS[tokenizer], text)
    except InspectError:
        encoded = tokens.encode(TOKENIZERS["byte level"], "no")
    session.run = replace(session.run, text=text, tokens=encoded.tokens)
    return session


def is_harmless(text: str, allowed: str = "") -> bool:
    return all(sign in allowed or unicodedata.category(sign) not in DANGEROUS for sign in text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS, st.sampled_from(sorted(TOKENIZERS)))
@example("\x1b[2J\x07\r\x00\x7f\u009b\u202e\u200b\u2060\ufeff\ud800", "byte level")
@example("💩בנ 日本", "byte fallback")
@pytest.mark.parametrize("name", MAPS)
def test_every_export_of_any_text_is_harmless_and_reads_back(
    name: str, text: str, tokenizer: str
) -> None:
    session = session_of(text, tokenizer)
    shown = [cells.visible(token.text) for token in session.run.tokens]
    assert all(label and is_harmless(label) for label in shown)
    for form in FORMATS:
        stream = io.BytesIO()
        try:
            export_stream(session, ExportRequest(name, parse("L0"), form), stream)
        except InspectError as error:
            assert name == "identity", error  # special tokens alone are not counted
            continue
        if form == "npz":
            arrays = np.load(io.BytesIO(stream.getvalue()))
            named = {token for key in arrays if key.endswith(NAMED) for token in arrays[key]}
            assert named <= set(shown)
            continue
        made = stream.getvalue().decode("utf-8")
        assert is_harmless(made, "\n\t" if form == "tsv" else "\n")
        found = _labels(form, made)
        assert found is None or name != "effective" or found == shown


def _labels(form: str, made: str) -> list[str] | None:
    """The keys of query 0 as a program reads them back; None where none needs to."""
    if form in ("csv", "tsv"):
        rows = csv.DictReader(io.StringIO(made), delimiter="," if form == "csv" else "\t")
        return [row["key_token"] for row in rows if row.get("query") == "0"]
    if form == "json":
        read = json.loads(made)
        assert read["metadata"]["model"] == "fake-model"
        return [row[5] for row in read["rows"] if len(row) == 7 and row[2] == 0]
    if form == "svg":
        texts = ElementTree.fromstring(made).iter("{http://www.w3.org/2000/svg}text")
        return [str(part.text) for part in texts if part.get("transform")]
    if form == "html":
        assert "<script" not in made
        head = made.partition("<thead>")[2].partition("</thead>")[0]
        return [html.unescape(label) for label in re.findall(r"<th>(.*?)</th>", head)]
    return None


@given(TEXTS, st.sampled_from(sorted(TOKENIZERS)), st.integers(1, 14), st.booleans())
def test_labels_of_any_text_fill_their_cells(
    text: str, tokenizer: str, wide: int, ascii: bool
) -> None:
    run = session_of(text, tokenizer).run
    for unit, mode in product(("token", "word"), LABEL_MODES):
        for label in unit_labels(run.tokens, unit, mode):
            box = cells.wrap(label, wide, 3, ascii=ascii)
            for line in [cells.fit(label, wide, ascii=ascii), *box]:
                assert cells.width(line) == wide
                assert is_harmless(line)
                assert not ascii or line.isascii()


@given(st.text(WHOLE, min_size=1, max_size=12))
def test_words_have_whole_characters_however_they_are_split(text: str) -> None:
    for name in ("byte level", "byte fallback"):
        try:
            made = tokens.encode(TOKENIZERS[name], text).tokens
        except InspectError:
            assert not text.strip()
            continue
        assert "".join(unit_labels(made, "word", "readable")).lstrip("·") == text
        for position, token in enumerate(made):
            for piece in token.pieces:
                assert 1 <= piece.part <= piece.of
                first = made[position - piece.part + 1]
                assert (piece.character, 1, piece.of) in [
                    (one.character, one.part, one.of) for one in first.pieces
                ]
                assert piece.character in (first.joined or "")
