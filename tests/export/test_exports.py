"""Exports: exact columns, full precision, hostile tokens, whole files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.fakes import HOSTILE, FakeSession
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.export import FORMATS, ExportRequest, export_file, export_stream, format_of
from tui_attn.progress import Job
from tui_attn.render.cells import visible
from tui_attn.selection import parse

HEAD_COLUMNS = (
    "layer",
    "head",
    "rank",
    "null_dimension",
    "identifiable",
    "null_share",
    "correlation",
    "entropy",
    "negative_share",
    "first_token_share",
    "row_sum_min",
    "row_sum_max",
)
CELLS = ["layer", "head", "query", "key", "query_token", "key_token", "value"]


def exported(session: FakeSession, request: ExportRequest) -> bytes:
    stream = io.BytesIO()
    export_stream(session, request, stream)
    return stream.getvalue()


def rows(session: FakeSession, request: ExportRequest) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(session, request).decode())))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["attention", "effective", "null"])
def test_csv_holds_every_visible_cell_in_full_precision(name: str, causal: bool) -> None:
    session = FakeSession(2, 3, causal=causal)
    n = session.length()
    found = rows(session, ExportRequest(name))
    assert list(found[0]) == CELLS
    assert len(found) == 2 * 3 * (n * (n + 1) // 2 if causal else n * n)
    for row in found:
        layer, head, query, key = (int(row[column]) for column in CELLS[:4])
        window = session.window(name, layer, head, (query, query + 1), (key, key + 1))
        assert float(row["value"]) == window.values[0, 0]
        assert row["query_token"] == visible(session.run.tokens[query].text)
    assert (min(float(row["value"]) for row in found) < 0) == (name != "attention")


def test_a_selection_is_what_comes_out() -> None:
    session = FakeSession(4, 6)
    found = rows(session, ExportRequest("attention", parse("L3H0,2 q=-1 k=1:4")))
    assert {(r["layer"], r["head"], r["query"], r["key"]) for r in found} == {
        ("3", head, "7", key) for head in "02" for key in "123"
    }


def test_blocks_of_rows_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(1, 1, length=30)
    whole = exported(session, ExportRequest("effective"))
    monkeypatch.setattr("tui_attn.export.tables._BLOCK_CELLS", 70)
    assert exported(session, ExportRequest("effective")) == whole


def test_heads_have_one_row_each() -> None:
    found = rows(FakeSession(2, 3), ExportRequest("heads"))
    assert list(found[0]) == list(HEAD_COLUMNS)
    assert [(row["layer"], row["head"]) for row in found] == [
        (str(layer), str(head)) for layer in range(2) for head in range(3)
    ]
    assert {row["identifiable"] for row in found} <= {"true", "false"}


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_tokens_are_harmless_in_every_format(form: str) -> None:
    session = FakeSession(1, 1, words=HOSTILE)
    data = exported(session, ExportRequest("effective", format=form))
    if form == "npz":
        tokens = np.load(io.BytesIO(data))["query_token"]
        assert set(tokens) == {visible(token.text) for token in session.run.tokens}
        return
    text = data.decode("utf-8")
    allowed = "\n\t" if form == "tsv" else "\n"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", text)
    assert all(sign in allowed or sign >= " " for sign in text)
    if form in ("html", "svg"):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
    if form == "html":
        HTMLParser().feed(text)
    if form == "svg":
        ElementTree.fromstring(text)
    if form in ("csv", "tsv"):  # a formula must be text to a spreadsheet
        assert '"=1+1"' in text
    if form == "md":
        assert all(line.replace("\\|", "").count("|") == 8 for line in text.splitlines())


def test_json_and_npz_carry_their_metadata_and_the_same_numbers() -> None:
    session = FakeSession(1, 2)
    request = ExportRequest("null", parse("H1"), "json")
    made = json.loads(exported(session, request))
    assert made["columns"] == CELLS
    assert made["metadata"]["map"] == "null"
    assert made["metadata"]["model"] == "fake-model"
    assert "--select H1" in made["metadata"]["command"]
    arrays = np.load(io.BytesIO(exported(session, ExportRequest("null", parse("H1"), "npz"))))
    assert arrays["value"].tolist() == [row[-1] for row in made["rows"]]
    assert json.loads(str(arrays["metadata"]))["map"] == "null"


def test_nan_is_kept() -> None:
    session = FakeSession(1, 1)
    window = session.window

    def with_nan(*args, **kwargs):
        made = window(*args, **kwargs)
        made.values[0, 0] = math.nan
        return made

    session.window = with_nan
    request = ExportRequest("attention", parse("q=0 k=0"))
    assert rows(session, request)[0]["value"] == "nan"
    made = json.loads(exported(session, ExportRequest("attention", parse("q=0 k=0"), "json")))
    assert made["rows"][0][-1] is None


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_are_the_same_every_time(form: str, tmp_path: Path) -> None:
    request = ExportRequest("effective", parse("L0H0"), form)
    files = [
        export_file(FakeSession(2, 2), request, tmp_path / f"{number}.{form}") for number in (1, 2)
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_metadata_lies_beside_tables_that_cannot_hold_it(tmp_path: Path) -> None:
    export_file(FakeSession(), ExportRequest("null", parse("L0H0")), tmp_path / "a.csv")
    meta = json.loads((tmp_path / "a.csv.meta.json").read_text(encoding="utf-8"))
    assert meta["variant"] == "output"
    assert meta["source"].startswith("On Identifiability")
    export_file(FakeSession(), ExportRequest("null", parse("L0H0"), "json"), tmp_path / "a.json")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.csv.meta.json", "a.json"}


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), Cancelled()])
def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: Exception
) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")
    session = FakeSession(3, 1)
    window = session.window

    def failing(map_name, layer, *args, **kwargs):
        if layer == 2:
            raise failure
        return window(map_name, layer, *args, **kwargs)

    session.window = failing
    with pytest.raises((InspectError, Cancelled)):
        export_file(session, ExportRequest("attention"), target, force=True)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")
    with pytest.raises(InspectError) as caught:
        export_file(FakeSession(), ExportRequest("attention"), target)
    assert caught.value.code == ExitCode.OUTPUT
    assert target.read_text() == "old"


@pytest.mark.parametrize("path", ["missing/a.csv", "."])
def test_places_that_cannot_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(InspectError) as caught:
        export_file(FakeSession(), ExportRequest("attention"), tmp_path / path)
    assert caught.value.code == ExitCode.OUTPUT


def test_new_files_have_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        made = export_file(FakeSession(1, 1), ExportRequest("attention"), tmp_path / "a.csv")
    finally:
        os.umask(mask)
    assert made.stat().st_mode & 0o777 == 0o644


def test_cancelling_stops_an_export(tmp_path: Path) -> None:
    job = Job()
    job.cancel()
    with pytest.raises(Cancelled):
        export_file(FakeSession(), ExportRequest("attention"), tmp_path / "a.csv", job=job)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExportRequest("efective"),
        lambda: ExportRequest("attention", format="cvs"),
        lambda: ExportRequest("heads", format="svg"),
    ],
)
def test_wrong_requests_are_usage_errors_that_name_what_is_meant(make) -> None:
    with pytest.raises(InspectError) as caught:
        make()
    assert caught.value.code == ExitCode.USAGE
    assert re.search("effective|csv", str(caught.value))


def test_pictures_have_limits() -> None:
    session = FakeSession(1, 1, length=600)
    with pytest.raises(InspectError) as caught:
        exported(session, ExportRequest("attention", format="svg"))
    assert caught.value.code == ExitCode.INPUT


@pytest.mark.parametrize(
    "name,form",
    [("a.csv", "csv"), ("a.JSON", "json"), ("a.markdown", "md"), ("a.htm", "html"), ("a", "csv")],
)
def test_the_file_name_tells_the_format(name: str, form: str) -> None:
    assert format_of(Path(name)) == form
