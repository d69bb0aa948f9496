"""The person's file and the environment stand in for options, and never for permission."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_attn import config, defaults, options
from tui_attn.errors import ExitCode, InspectError
from tui_attn.render.palette import COLOUR_MAPS


def write(text: str | bytes) -> Path:
    path = defaults.config_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_names_of_colour_maps_are_in_step() -> None:
    assert tuple(one.name for one in COLOUR_MAPS) == config.COLOUR_MAPS


def test_the_file_then_the_environment_then_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write('color = "16"\nmax-tokens = 40\nascii = true\ntolerance = 1e-5\nno-mouse = false\n')
    chosen = options.read([])[1]
    found = (chosen.colour, chosen.max_tokens, chosen.ascii, chosen.tolerance, chosen.no_mouse)
    assert found == ("16", 40, True, 1e-5, False)
    monkeypatch.setenv("ATTN_INSPECT_COLOR", "256")
    monkeypatch.setenv("ATTN_INSPECT_NO_MOUSE", "on")
    chosen = options.read([])[1]
    assert (chosen.colour, chosen.no_mouse, chosen.max_tokens) == ("256", True, 40)
    chosen = options.read(["--color", "truecolor", "--max-tokens", "9"])[1]
    assert (chosen.colour, chosen.max_tokens) == ("truecolor", 9)


@pytest.mark.parametrize("command", options.COMMANDS)
def test_every_command_reads_them(command: str) -> None:
    write('device = "cpu"\ncolor = "16"\noffline = true\nvariant = "sum-one"\n')
    more = ["--map", "attention"] if command == "export" else []
    chosen = options.read([*command.split(), *more])[1]
    assert (chosen.device, chosen.colour, chosen.offline) == ("cpu", "16", True)


def test_no_color_wins_over_the_file_and_not_over_what_is_meant_for_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write('color = "256"\n')
    monkeypatch.setenv("NO_COLOR", "1")
    assert options.read([])[1].colour == "auto"
    monkeypatch.setenv("ATTN_INSPECT_COLOR", "256")
    assert options.read([])[1].colour == "256"


@pytest.mark.parametrize(
    "text,words",
    [
        ('colour = "256"', "'colour', which is no setting; the nearest is color"),
        ('color = "pink"', "config.toml: argument --color: invalid choice: 'pink'"),
        ("max-tokens = 0", "config.toml: argument --max-tokens: '0' is not a whole number from 1"),
        ("max-tokens = [1]", "max-tokens is not a word or a number"),
        ('ascii = "maybe"', "ascii is not true or false"),
        ("color = true", "color is not a word or a number"),
        ("trust-remote-code = true", "'trust-remote-code', which is no setting"),
        ("allow-pickle = true", "'allow-pickle', which is no setting"),
        ("color = ", "is no TOML"),
        (b"\xff\xfe", "is no TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_says_where(text: str | bytes, words: str) -> None:
    path = write(text)
    with pytest.raises(InspectError) as caught:
        options.read([])
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    "variable,text", [("COLR", "256"), ("ASCII", "maybe"), ("MAX_TOKENS", "x"), ("KEEP", "there")]
)
def test_so_in_the_environment(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ATTN_INSPECT_{variable}", text)
    with pytest.raises(InspectError, match=f"ATTN_INSPECT_{variable}"):
        options.read([])


def test_a_folder_in_its_place() -> None:
    defaults.config_file().mkdir(parents=True)
    with pytest.raises(InspectError, match="cannot be read"):
        options.read([])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.binary() | st.text().map(str.encode))
def test_any_file_is_read_or_refused(text: bytes) -> None:
    write(text)
    try:
        options.read([])
    except InspectError as error:
        assert error.code == ExitCode.USAGE
