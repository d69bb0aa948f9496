"""The command line in this process, over a session with fixed numbers: exit codes and streams."""

from __future__ import annotations

import io
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeSession, encoder_decoder
from tui_attn import cli, session
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.answers.identity import choose
from tui_attn.errors import InspectError
from tui_attn.export import ExportRequest, command_line, export_file, export_stream
from tui_attn.selection import parse


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSession:
    made = FakeSession(3, 4)
    monkeypatch.setattr(session, "open_session", lambda request, job, tolerance=None: made)
    monkeypatch.setattr("tui_attn.commands.headless.resolve", lambda request: None)
    monkeypatch.chdir(tmp_path)
    for name in ("TEXTUAL_COLOR_SYSTEM", "TEXTUAL_ANIMATIONS", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "")
    for name in ("TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "1")
    return made


def run(capsysbinary, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capsysbinary.readouterr()
    return code, out.decode(), err.decode()


def test_a_table_goes_to_standard_output_and_nothing_else_does(capsysbinary) -> None:
    code, out, err = run(capsysbinary, "export", "m", "a b", "--map", "attention", "--layer", "1")
    assert code == 0
    assert out.startswith("layer,head,query,key,query_token,key_token,value\n1,0,0,0,")
    assert err == ""


def test_the_file_is_that_of_the_screen(capsysbinary, fake: FakeSession, tmp_path: Path) -> None:
    arguments = ("--map", "effective", "--select", "L1H2 q=1:3", "-o", "cli.json")
    assert run(capsysbinary, "export", "m", "a b c", *arguments)[:2] == (0, "")
    request = ExportRequest("effective", parse("L1H2 q=1:3"), "json")
    export_file(fake, request, tmp_path / "code.json")
    assert (tmp_path / "cli.json").read_bytes() == (tmp_path / "code.json").read_bytes()


def test_layer_and_head_are_parts_of_a_selection(capsysbinary) -> None:
    one = run(capsysbinary, "export", "--map", "null", "--layer", "2", "--head", "3")
    other = run(capsysbinary, "export", "--map", "null", "--select", "L2H3")
    everything = run(capsysbinary, "export", "--map", "null", "--layer", "all", "--head", "all")
    assert one == other
    assert everything == run(capsysbinary, "export", "--map", "null")
    assert len(everything[1]) > len(one[1])


def test_heads_is_a_table_for_people_and_for_programs(capsysbinary) -> None:
    code, out, _ = run(capsysbinary, "heads")
    assert code == 0
    assert len({len(line) for line in out.splitlines()}) == 1
    assert len(out.splitlines()) == 13
    code, out, _ = run(capsysbinary, "heads", "--format", "csv", "--layer", "0")
    assert out.startswith("layer,head,rank,")
    assert len(out.splitlines()) == 5


def test_text_comes_from_files_and_pipes(
    capsysbinary, fake: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.txt").write_text("from a file", encoding="utf-8")
    run(capsysbinary, "heads", "m", "--text-file", "t.txt")
    assert fake.run.text == "from a file"
    with (tmp_path / "t.txt").open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        run(capsysbinary, "heads", "m", "-")
    assert fake.run.text == "from a file"


def test_json_names_the_command_that_makes_it_again(capsysbinary) -> None:
    text = "it's $HOME; `rm`"
    _, out, _ = run(capsysbinary, "export", "m", text, "--map", "attention", "--format", "json")
    command = json.loads(out)["metadata"]["command"]
    assert "'it'\"'\"'s $HOME; `rm`'" in command


@pytest.mark.parametrize(
    "code,arguments",
    [
        (2, ["--nonsense"]),
        (2, ["export"]),
        (2, ["export", "--map", "efective"]),
        (2, ["export", "--map", "attention", "--layer", "9"]),
        (2, ["export", "--map", "attention", "--head", "x"]),
        (2, ["export", "--map", "attention", "--select", "L1", "--layer", "1"]),
        (2, ["export", "--map", "attention", "--format", "xls"]),
        (2, ["export", "--map", "attention", "-o", "table.xlsx"]),
        (2, ["export", "--map", "attention", "--layer", "1H2"]),
        (2, ["export", "--map", "attention", "--layer", "1 q=0"]),
        (2, ["export", "--map", "attention", "--head", ""]),
        (2, ["export", "--map", "attention", "--tolerance", "nan"]),
        (2, ["export", "--map", "attention", "--tolerance", "-1"]),
        (2, ["export", "--map", "attention", "--max-tokens", "many"]),
        (2, ["export", "m", "not UTF-8 \udcff", "--map", "attention"]),
        (2, ["export", "m", "t", "--pair", "\udcff", "--map", "attention"]),
        (2, ["export", "--map", "attention", "--", "a", "b", "c"]),
        (2, ["heads", "--select", "q=1"]),
        (2, ["--offline", "doctor"]),
        (2, ["maps", "--", "extra"]),
        (2, ["--\x1b[2J\nnonsense"]),
        (2, ["export", "--map", "attention", "--variant", "other"]),
        (2, ["export", "--map", "attention", "--max-tokens", "0"]),
        (2, ["export", "--map", "attention", "--text-file", "missing.txt"]),
        (2, ["export", "m", "text", "--text-file", "also.txt", "--map", "attention"]),
        (2, ["export", "--map", "attention", "--text-file", "latin1.txt"]),
        (2, ["m", "text"]),
        (5, ["export", "m", "  ", "--map", "attention"]),
        (5, ["export", "--map", "attention", "--text-file", "empty.txt"]),
        (5, ["export", "--map", "attention", "--text-file", "blank.txt"]),
        (5, ["export", "--map", "attention", "--text-file", "/dev/zero"]),
        (2, ["export", "--map", "attention", "--text-file", "."]),
        (2, ["export", "--map", "attention", "--text-file", "a\0b"]),
        (2, ["export", "--map", "attention", "--text-file", "latin1.txt/x"]),
        (2, ["export", "--map", "attention", "--text-file", "utf16.txt"]),
        (2, ["export", "--map", "attention", "--text-file", "half.txt"]),
        (6, ["export", "--map", "attention", "-o", "no/folder.csv"]),
        (6, ["export", "--map", "attention", "-o", "exists.csv"]),
    ],
)
def test_failures_are_one_sentence_and_a_code(
    capsysbinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, arguments: list[str]
) -> None:
    (tmp_path / "latin1.txt").write_bytes("Zoë".encode("latin-1"))
    (tmp_path / "exists.csv").write_text("old")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "blank.txt").write_bytes(b"\xef\xbb\xbf \r\n\t")
    (tmp_path / "utf16.txt").write_bytes("a text without its mark".encode("utf-16-be"))
    (tmp_path / "half.txt").write_bytes("Zoë".encode("utf-16")[:-1])
    monkeypatch.setenv("TERM", "dumb")
    found, out, err = run(capsysbinary, *arguments)
    assert (found, out) == (code, "")
    assert err.startswith("attn-inspect: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert "Traceback" not in err
    assert (tmp_path / "exists.csv").read_text() == "old"


@pytest.mark.parametrize(
    "error,code",
    [(InspectError("no model", "find one", code), int(code)) for code in (3, 4, 5)]
    + [(KeyboardInterrupt(), 130), (RuntimeError("boom\ntwice"), 1), (MemoryError(), 5)],
)
def test_every_failure_behind_has_its_code(
    capsysbinary, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(session, "open_session", failing)
    found, out, err = run(capsysbinary, "heads")
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    assert "Traceback" in run(capsysbinary, "heads", "--debug")[2] or code == 130


@pytest.mark.parametrize(
    "words",
    [
        ["m", "a b", "--map", "attention"],
        ["m", "--map", "attention", "a b"],
        ["--map", "attention", "m", "a b"],
        ["--map", "attention", "--", "m", "a b"],
        ["m", "--map", "attention", "--", "a b"],
    ],
)
def test_words_and_options_come_in_any_order(capsysbinary, fake: FakeSession, words) -> None:
    assert run(capsysbinary, "export", *words)[0] == 0
    assert fake.run.text == "a b"


@pytest.mark.parametrize(
    "value,offline", [("1", True), ("true", True), ("0", False), ("no", False)]
)
def test_offline_is_read_as_the_hub_reads_it(
    capsysbinary, monkeypatch: pytest.MonkeyPatch, fake: FakeSession, value: str, offline: bool
) -> None:
    asked = []

    def opened(request, job, tolerance=None):
        asked.append(request.offline)
        return fake

    monkeypatch.setattr(session, "open_session", opened)
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    run(capsysbinary, "heads")
    assert asked == [offline]


def test_force_replaces(capsysbinary, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    assert run(capsysbinary, "export", "--map", "heads", "-o", "a.csv", "--force")[0] == 0
    assert (tmp_path / "a.csv").read_text().startswith("layer,")


def test_maps_are_listed_with_formula_and_source(capsysbinary) -> None:
    code, out, _ = run(capsysbinary, "maps")
    assert code == 0
    for name in ("attention", "effective", "null", "heads"):
        assert f"{name}: " in out
    assert out.count("1908.04211") >= 3


def test_doctor_never_fails(capsysbinary) -> None:
    code, out, _ = run(capsysbinary, "doctor", "--device", "cuda:99")
    assert code == 0
    for name in ("python", "torch", "transformers", "textual", "demo model", "colours", "cpu"):
        assert f"\n{name}" in f"\n{out}"
    assert "there is no device" in out


@pytest.mark.parametrize(
    "environment,flag,expected",
    [
        ({"COLORTERM": "truecolor"}, "auto", "truecolor"),
        ({"TERM": "tmux-256color"}, "auto", "256"),
        ({"TERM": "xterm-kitty"}, "auto", "256"),
        ({"TERM": "linux"}, "auto", "16"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "auto", "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "0"}, "auto", "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "256", "256"),
    ],
)
def test_colour_depth(monkeypatch, environment, flag, expected) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli._colour(flag) == expected


def test_a_closed_standard_error_is_no_reason_to_stop(
    capsysbinary, fake: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    code, out, _ = run(capsysbinary, "heads", "m", "a b c", "--max-tokens", "3")
    assert code == 0
    assert len(out.splitlines()) == 13


@pytest.mark.parametrize(
    "arguments,header",
    [
        (("identity",), "layer,token,token_text,rank,cosine,nearest,nearest_text"),
        (("identity", "--summary", "rates"), "layer,method,metric,target,candidates,match,"),
        (("identity", "--summary", "transfer", "--probe", "ridge"), "train_layer,test_layer,"),
        (("attribution",), "layer,query,key,query_token,key_token,value"),
        (("attribution", "--summary", "own"), "layer,n,min,q1,median,q3,max,not_main"),
        (("attribution", "--summary", "distance"), "layer,side,distance,relative"),
        (("attribution", "--summary", "kind"), "layer,kind,tokens,own,given"),
    ],
)
def test_the_tables_of_hidden_states(capsysbinary, arguments: tuple[str, ...], header: str) -> None:
    code, out, err = run(capsysbinary, "export", "--map", *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(header)
    assert len(out.splitlines()) > 2


def test_a_halved_batch_is_said(capsysbinary, fake: FakeSession) -> None:
    state = fake.attribution.state
    fake.attribution.state = lambda choices: replace(state(choices), halved=2)
    code, out, err = run(capsysbinary, "export", "--map", "attribution", "--layer", "0")
    assert code == 0 and out
    assert "halved 2 times" in err


def test_identity_leaves_special_tokens_out_unless_asked(capsysbinary) -> None:
    def tokens(*arguments: str) -> set[str]:
        out = run(capsysbinary, "export", "m", "a b", "--map", "identity", *arguments)[1]
        return {line.split(",")[1] for line in out.splitlines()[1:]}

    assert tokens() == {"1", "2"}
    assert tokens("--special") == {"0", "1", "2", "3"}
    assert tokens("--select", "q=2") == {"2"}


def test_layers_of_hidden_states(capsysbinary) -> None:
    def layers(*arguments: str) -> list[str]:
        out = run(capsysbinary, "export", "--map", "identity", "--select", "q=1", *arguments)[1]
        return [line.split(",")[0].strip('"') for line in out.splitlines()[1:]]

    assert layers() == ["emb", "0", "1", "2"]
    assert layers("--layer", "emb,2") == ["emb", "2"]
    assert layers("--layer", "emb") == ["emb"]
    assert layers("--layer", "1:") == ["1", "2"]


@pytest.mark.parametrize(
    "arguments,words",
    [
        (("--map", "identity", "--select", "H1"), "no heads"),
        (("--map", "identity", "--select", "k=1"), "no keys"),
        (("--map", "identity", "--select", "q=0"), "--special"),
        (("--map", "identity", "--layer", "9"), "no layer 9"),
        (("--map", "identity", "--summary", "own"), "rates"),
        (("--map", "identity", "--summary", "rates", "--select", "q=1"), "no queries"),
        (("--map", "identity", "--candidates", "vocabulary", "--match", "position"), "match id"),
        (("--map", "identity", "--exact"), "--map attribution"),
        (("--map", "attribution", "--select", "H1"), "no heads"),
        (("--map", "attribution", "--layer", "emb"), "no layer emb"),
        (("--map", "attribution", "--norm", "ones"), "--exact"),
        (("--map", "attribution", "--exact", "--probes", "4"), "no probes"),
        (("--map", "attribution", "--metric", "l2"), "--map identity"),
        (("--map", "attention", "--layer", "emb"), "no layer emb"),
        (("--map", "attention", "--summary", "own"), "leave it out"),
    ],
)
def test_choices_that_do_not_fit_are_refused(
    capsysbinary, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(capsysbinary, "export", *arguments)
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "request_",
    [
        ExportRequest("identity", parse("L1 q=1"), identity=choose(metric="l2", special=True)),
        ExportRequest("identity", identity=choose(candidates="vocabulary")),
        ExportRequest("identity", summary="transfer", identity=choose(probe="ridge")),
        ExportRequest("attribution", parse("L1"), attribution=AttributionChoices(probes=3, seed=7)),
        ExportRequest("attribution", attribution=AttributionChoices(exact=True, norm="ones")),
        ExportRequest("attribution", summary="offset", attribution=AttributionChoices(exact=True)),
    ],
    ids=lambda request: f"{request.map}-{request.summary}-{request.attribution}",
)
def test_the_printed_command_makes_the_same_table_again(
    capsysbinary, fake: FakeSession, request_: ExportRequest
) -> None:
    first = io.BytesIO()
    export_stream(fake, request_, first)
    _, *arguments = shlex.split(command_line(fake, request_))
    code, out, _ = run(capsysbinary, *arguments)
    assert code == 0
    assert out.encode() == first.getvalue()


@pytest.mark.parametrize("more", [("m",), ("m", "text"), ("--text-file", "f"), ("--pair", "p")])
def test_resume_brings_its_own_model_and_text(capsysbinary, more: tuple[str, ...]) -> None:
    code, out, err = run(capsysbinary, "--resume", *more)
    assert (code, out) == (2, "")
    assert "leave them out" in err


def test_there_may_be_nothing_to_resume(capsysbinary) -> None:
    code, _, err = run(capsysbinary, "--resume")
    assert code == 2
    assert "nothing to resume" in err


@pytest.fixture
def stacked(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    made = encoder_decoder()
    monkeypatch.setattr(session, "open_session", lambda request, job, tolerance=None: made)
    return made


def test_a_stack_is_chosen_and_a_decoder_text_given(capsysbinary, stacked: FakeSession) -> None:
    words = ("export", "m", "a b", "--map", "attention", "--select", "L0H0")
    code, out, err = run(capsysbinary, *words, "--stack", "cross", "--decoder-text", "un deux")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1 + 3 * 4
    assert '"deux","b"' in out
    assert run(capsysbinary, *words)[1] == run(capsysbinary, *words, "--stack", "encoder")[1]
    code, out, err = run(capsysbinary, *words, "--stack", "decoder")
    assert code == 0
    assert err.count("\n") == 1
    assert "what the model itself writes" in err


@pytest.mark.parametrize("command", ["export", "heads"])
@pytest.mark.parametrize(
    "words", [("--stack", "cross"), ("--decoder-text", "a b"), ("--stack", "middle")]
)
def test_stacks_of_a_model_that_has_none_are_wrong_usage(
    capsysbinary, command: str, words: tuple[str, str]
) -> None:
    shown = ("--map", "attention") if command == "export" else ()
    code, out, err = run(capsysbinary, command, "m", "a b", *shown, *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_maps_that_a_stack_has_not_are_refused_in_a_sentence(capsysbinary, stacked) -> None:
    for name in ("identity", "attribution"):
        words = ("--map", name, "--stack", "cross", "--decoder-text", "un deux")
        code, out, err = run(capsysbinary, "export", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "encoder" in err
