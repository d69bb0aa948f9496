"""What is remembered of the last screen: it reads back, and nothing in the file can do harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_attn import places
from tui_attn.answers import ModelRequest
from tui_attn.config import state_folder
from tui_attn.errors import InspectError
from tui_attn.places import Place

PLACE = Place(
    ModelRequest(name="org/model", dtype="float32", revision="abc"),
    "a text \x1b[2J\u202e [b]with[/b] all\nkinds",
    pair="another",
    max_tokens=7,
    keep="recompute",
    map="effective",
    where="L5H3 q=12 k=3",
    decoder_text="what is written",
    stack="cross",
)


def test_a_place_reads_back() -> None:
    places.save(PLACE)
    assert places.last() == PLACE
    assert places.recent_models() == ("org/model",)


def test_permission_to_run_code_is_not_kept() -> None:
    places.save(Place(ModelRequest("m", trust_remote_code=True, allow_pickle=True), "x"))
    assert places.last().request == ModelRequest("m")


def test_a_folder_is_found_again_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    places.save(Place(ModelRequest("model"), "x"))
    monkeypatch.chdir("/")
    assert places.last().request.name == str(tmp_path / "model")


def test_models_are_remembered_once_each_the_latest_first_and_not_for_ever() -> None:
    for number in (*range(20), 15):
        places.save(Place(ModelRequest(f"m{number}"), "x"))
    assert places.recent_models() == tuple(f"m{n}" for n in (15, 19, 18, 17, 16, *range(14, 7, -1)))


def test_nothing_to_resume_is_a_sentence() -> None:
    with pytest.raises(InspectError, match="nothing to resume"):
        places.last()


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    places.save(PLACE)
    assert places.recent_models() == ()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner),
    max_leaves=3,
)
known = st.fixed_dictionaries(
    {},
    optional={
        "request": st.dictionaries(st.sampled_from(["name", "device", "x"]), anything) | anything,
        **dict.fromkeys(
            ("text", "pair", "max_tokens", "keep", "map", "where", "models", "y"), anything
        ),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(contents=st.binary() | (known | anything).map(lambda value: json.dumps(value).encode()))
def test_any_file_is_read_or_refused(contents: bytes) -> None:
    (state_folder() / "last.json").write_bytes(contents)
    try:
        place = places.last()
    except InspectError:
        return
    assert isinstance(place.text, str)
    assert place.request.name is None or isinstance(place.request.name, str)
