"""Exports: exact columns, full precision, hostile tokens, whole files."""

from __future__ import annotations

import csv
import errno
import html
import io
import json
import math
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import HOSTILE, FakeSession, encoder_decoder
from tui_attn import options
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.export import (
    FORMATS,
    ExportRequest,
    command_line,
    export_file,
    export_stream,
    format_of,
)
from tui_attn.export.request import metadata
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
    monkeypatch.setattr("tui_attn.export.attention._BLOCK_CELLS", 70)
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
        assert "<" not in text
        assert "\\[red\\]" in text


def test_json_and_npz_carry_their_metadata_and_the_same_numbers() -> None:
    session = FakeSession(1, 2)
    request = ExportRequest("null", parse("H1"), "json")
    made = json.loads(exported(session, request))
    assert made["columns"] == CELLS
    assert made["metadata"]["command"].startswith("attn-inspect export fake-model ")
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


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("form", FORMATS)
def test_infinities_are_named_in_every_format(form: str, sign: int) -> None:
    session = FakeSession(1, 1)
    window = session.window

    def with_infinity(*args, **kwargs):
        made = window(*args, **kwargs)
        made.values[0, 0] = sign * math.inf
        return made

    session.window = with_infinity
    data = exported(session, ExportRequest("effective", parse("q=0 k=0"), form))
    if form == "npz":
        assert np.load(io.BytesIO(data))["value"].tolist() == [sign * math.inf]
    else:
        found = re.search(
            r"-?inf\b(?!-)", data.decode().split("<details")[0].replace("-inspect", "")
        )
        assert found is not None and found[0] == ("inf" if sign > 0 else "-inf")


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


@pytest.mark.parametrize("path", ["missing/a.csv", ".", "a" * 300 + ".csv"])
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
        lambda: ExportRequest("heads", parse("q=1"), "csv"),
    ],
)
def test_wrong_requests_are_usage_errors_that_name_what_is_meant(make) -> None:
    with pytest.raises(InspectError) as caught:
        make()
    assert caught.value.code == ExitCode.USAGE
    assert re.search("effective|csv|layers and heads only", str(caught.value))


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


@pytest.mark.parametrize("name", ["a.xlsx", "a.png", "a.csv.gz"])
def test_a_file_name_never_lies_about_its_format(name: str) -> None:
    with pytest.raises(InspectError, match="csv, tsv") as caught:
        format_of(Path(name))
    assert caught.value.code == ExitCode.USAGE


@given(st.permutations(range(12)), st.integers(1, 40))
def test_queries_come_in_the_order_asked_for_whatever_the_blocks(order, cells: int) -> None:
    session = FakeSession(1, 1, length=12)
    chosen = ",".join(map(str, order[:5]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tui_attn.export.attention._BLOCK_CELLS", cells)
        found = rows(session, ExportRequest("attention", parse(f"q={chosen} k=0:2")))
    assert [row["query"] for row in found[::2]] == chosen.split(",")


@pytest.mark.parametrize("form", ["json", "csv", "html", "svg"])
def test_a_hostile_text_is_harmless_in_the_metadata_and_reads_back(
    form: str, tmp_path: Path
) -> None:
    text = "a\x1b[2J \x9b2J \u202e \u200b </pre><script> ]]> \ud800 日本"
    session = FakeSession(1, 1, words=["a"])
    session.analyse(text)
    path = export_file(session, ExportRequest("null", parse("q=0"), form), tmp_path / f"a.{form}")
    if form == "csv":
        path = path.with_name("a.csv.meta.json")
    shown = path.read_text(encoding="utf-8")
    assert all(sign == "\n" or sign.isprintable() for sign in shown)
    assert "日本" in shown
    if form == "json":
        assert text in shlex.split(json.loads(shown)["metadata"]["command"])
    elif form == "csv":
        assert text in shlex.split(json.loads(shown)["command"])
    else:
        assert "<script" not in shown
        if form == "svg":
            described = ElementTree.fromstring(shown).find("{*}metadata").text
        else:
            described = html.unescape(shown.split("<pre>")[1].split("</pre>")[0])
        assert text in shlex.split(json.loads(described)["command"])


def test_metadata_may_hold_what_json_has_no_word_for() -> None:
    session = FakeSession(1, 1)
    session.provenance = lambda: {"checks": {"row sums": math.nan}, "shape": (1, math.inf)}
    made = json.loads(exported(session, ExportRequest("heads", format="json")))
    assert made["metadata"]["checks"] == {"row sums": None}
    assert made["metadata"]["shape"] == [1, "inf"]


def test_pictures_tell_nan_from_what_a_query_cannot_see() -> None:
    session = FakeSession(1, 1, causal=True)
    window = session.window

    def with_nan(*args, **kwargs):
        made = window(*args, **kwargs)
        made.values[0, 0] = math.nan
        return made

    session.window = with_nan
    shown = exported(session, ExportRequest("attention", parse("q=0 k=0:2"), "html")).decode()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown.split("<tbody>")[1])
    assert cells == ["NaN", ""]


@pytest.mark.parametrize("words", [("m", "a b"), ("-m", "a b"), ("m", "-x"), ("m", "--force")])
def test_the_command_reads_back_as_what_made_it(words: tuple[str, str]) -> None:
    session = FakeSession(name=words[0])
    session.analyse(words[1], pair="--pair")
    session.provenance = lambda: {"tolerance": 0.01}
    request = ExportRequest("null", parse("L1H2 q=-1"), "tsv", "no-bias")
    name, command, *rest = shlex.split(command_line(session, request, Path("-odd.tsv")))
    assert (name, command) == ("attn-inspect", "export")
    _, read = options.read(["export", *rest])
    assert (read.model, read.text, read.pair) == (*words, "--pair")
    assert (read.map, read.select, read.variant) == ("null", "L1H2 q=-1", "no-bias")
    assert (read.tolerance, read.format, read.output) == (0.01, "tsv", "-odd.tsv")


def test_numbers_stay_inside_their_cells_in_svg() -> None:
    shown = exported(FakeSession(1, 1), ExportRequest("effective", format="svg")).decode()
    found = re.findall(r'<rect x="(\d+)"[^>]*/><text x="(\d+)"[^>]*>([^<]*)<', shown)
    assert any(number.startswith("-") for _, _, number in found)
    letter = 6.2  # widest usual monospace letter at 10 pixels
    assert all(int(end) - letter * len(number) > int(left) for left, end, number in found)


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    export_file(FakeSession(1, 1), ExportRequest("heads"), tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("layer,")


@pytest.mark.parametrize("force", [False, True])
def test_a_pipe_is_written_into_and_never_replaced(tmp_path: Path, force: bool) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_text)
        export_file(FakeSession(1, 1), ExportRequest("heads"), pipe, force=force)
        assert reader.result(10).startswith("layer,")
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.csv"]


def test_metadata_of_somebody_else_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "a.csv.meta.json").write_text("old")
    with pytest.raises(InspectError, match="exists already"):
        export_file(FakeSession(1, 1), ExportRequest("heads"), tmp_path / "a.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.meta.json"]
    assert (tmp_path / "a.csv.meta.json").read_text() == "old"


def test_a_disk_that_is_full_at_the_end_leaves_no_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InspectError) as caught:
        export_file(FakeSession(1, 1), ExportRequest("heads"), tmp_path / "a.csv")
    assert caught.value.code == ExitCode.OUTPUT
    assert list(tmp_path.iterdir()) == []


def test_every_head_is_one_picture(tmp_path: Path) -> None:
    session = FakeSession(3, 5, words=["<b>", "</svg>", "x\x1b[2J"])
    drawn = exported(session, ExportRequest("heads", parse("L0,2 H1:4"), "svg")).decode()
    root = ElementTree.fromstring(drawn)
    space = {"s": "http://www.w3.org/2000/svg"}
    titles = [title.text for title in root.findall(".//s:title", space)]
    assert titles == [f"L{layer}H{head}" for layer in (0, 2) for head in (1, 2, 3)]
    paths = root.findall("s:path", space)
    assert len({path.get("fill") for path in paths}) == len(paths) > 1
    assert "\x1b" not in drawn
    page = exported(session, ExportRequest("heads", parse(""), "html")).decode()
    assert page.count("<title>L") == 15
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").split("<metadata>")[0]


def test_a_picture_of_a_head_covers_its_thumbnail() -> None:
    """Every visible cell is painted once, with the colour of its level."""
    session = FakeSession(1, 1)
    head = session.summaries(0)[0]
    drawn = exported(session, ExportRequest("heads", format="svg")).decode()
    pieces = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-", drawn)
    area = sum(float(across) * float(down) for _, _, across, down in pieces)
    seen = (~np.isnan(head.thumbnail)).mean() * 72 * 72
    assert abs(area - seen) < 1.0


def test_sampled_statistics_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = FakeSession(1, 1), FakeSession(1, 1, length=4000)
    request = ExportRequest("heads", format="json")
    assert metadata(short, request)["sampled_rows"] is None
    assert metadata(long, request)["sampled_rows"] == 256


def test_cross_attention_has_the_tokens_of_both_sides() -> None:
    cross = encoder_decoder().on("cross")
    found = rows(cross, ExportRequest("effective", parse("L2H4")))
    assert len(found) == 5 * 8
    for row in found:
        query, key = int(row["query"]), int(row["key"])
        assert row["query_token"] == cross.run.tokens[query].text
        assert row["key_token"] == cross.on("encoder").run.tokens[key].text
        window = cross.window("effective", 2, 4, (query, query + 1), (key, key + 1))
        assert float(row["value"]) == window.values[0, 0]
    last = rows(cross, ExportRequest("effective", parse("L2H4 q=-1 k=-1")))
    assert [(row["query_token"], row["key_token"]) for row in last] == [("dort", "[SEP]")]


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("form", ["json", "html", "svg"])
def test_every_export_names_its_stack(stack: str, form: str) -> None:
    session = encoder_decoder().on(stack)
    for request in (
        ExportRequest("attention", parse("L0H0"), form),
        ExportRequest("heads", format=form),
    ):
        written = exported(session, request).decode()
        assert f"--stack {stack}" in written
        assert form == "json" or f"{stack.capitalize()} · " in written
    assert (
        f'"stack": "{stack}"' in exported(session, ExportRequest("heads", format="json")).decode()
    )


def test_a_rectangle_is_drawn_to_its_edges() -> None:
    cross = encoder_decoder().on("cross")
    drawn = exported(cross, ExportRequest("heads", parse("L0H0"), "svg")).decode()
    pieces = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h", drawn)
    assert max(float(x) + float(wide) for x, _, wide, _ in pieces) == pytest.approx(40 + 72)
    assert max(float(y) + float(high) for _, y, _, high in pieces) == pytest.approx(
        44 + 72, abs=0.01
    )


def test_the_command_names_a_decoder_text_that_was_given_and_no_other() -> None:
    session = encoder_decoder().on("cross")
    request = ExportRequest("attention")
    assert "--decoder-text" not in command_line(session, request)
    session.analyse("the cat", decoder_text="-le chat")
    assert "'--decoder-text=-le chat' --stack cross" in command_line(session, request)


def test_a_pair_of_texts_has_segments_and_blocks() -> None:
    session = FakeSession(1, 1)
    session.analyse("the cat sat", pair="a mat")
    of = [0, 0, 0, 1, 1]
    tokens = [replace(t, segment=s) for t, s in zip(session.run.tokens, of, strict=True)]
    session.run = replace(session.run, tokens=tuple(tokens))
    found = rows(session, ExportRequest("attention", parse("q=A k=B")))
    assert {(row["query"], row["key"]) for row in found} == {
        (query, key) for query in "012" for key in "34"
    }
    made = json.loads(exported(session, ExportRequest("attention", parse("q=B k=A"), "json")))
    assert made["metadata"]["segments"] == {"A": [0, 3], "B": [3, 5]}
    assert made["metadata"]["selection"] == "q=B k=A"
    assert len(made["rows"]) == 6
    made = json.loads(exported(session, ExportRequest("identity", parse("L0 q=B"), "json")))
    assert {row[1] for row in made["rows"]} == {3}  # the last one is special
    with pytest.raises(InspectError, match="--pair"):
        exported(FakeSession(1, 1), ExportRequest("attention", parse("q=A")))
