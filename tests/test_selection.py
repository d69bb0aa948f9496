"""The selection language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_attn.errors import ExitCode, InspectError
from tui_attn.selection import Span, parse


@pytest.mark.parametrize(
    "text,layers,heads,queries,keys",
    [
        ("", range(6), range(12), range(40), range(40)),
        ("L5H3 q=12 k=0:20", [5], [3], [12], range(20)),
        ("l5 h3", [5], [3], range(40), range(40)),
        ("k=:3 q=38: H0,2", range(6), [0, 2], [38, 39], range(3)),
        ("q=-1", range(6), range(12), [39], range(40)),
        ("L* H=all", range(6), range(12), range(40), range(40)),
        ("L1:3", [1, 2], range(12), range(40), range(40)),
    ],
)
def test_selections(text, layers, heads, queries, keys) -> None:
    made = parse(text)
    assert made.layers.resolve(6, "layer") == list(layers)
    assert made.heads.resolve(12, "head") == list(heads)
    assert made.queries.resolve(40, "query") == list(queries)
    assert made.keys.resolve(40, "key") == list(keys)
    assert parse(str(made)) == made or "all" in text or "*" in text


@pytest.mark.parametrize(
    "text",
    ["L", "5", "q12", "L5 L6", "k=1;2", "q=1..3", "L5H3x", "q==", "q=C", "q=AB", "LA", "q=A,B"],
)
def test_what_cannot_be_read_is_a_usage_error(text: str) -> None:
    with pytest.raises(InspectError) as caught:
        parse(text)
    assert caught.value.code == ExitCode.USAGE


def test_the_texts_of_a_pair_have_names() -> None:
    made = parse("L1 q=A k=b")
    segments = [0, 0, 0, 1, 1]
    assert str(made) == "L1 q=A k=B"
    assert parse(str(made)) == made
    assert made.queries.resolve(5, "query", segments) == [0, 1, 2]
    assert made.keys.resolve(5, "key", segments) == [3, 4]


@pytest.mark.parametrize("segments", [(), (0, 0, 0)])
@pytest.mark.parametrize("name", ["A", "B"])
def test_a_text_alone_has_no_segments(name: str, segments: tuple[int, ...]) -> None:
    with pytest.raises(InspectError, match=r"no query [AB].*--pair") as caught:
        parse(f"q={name}").queries.resolve(3, "query", segments)
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize("text", ["6", "-7", "9:12", "3:3", "0,6"])
def test_what_is_not_there_is_a_usage_error_that_says_what_is(text: str) -> None:
    with pytest.raises(InspectError, match=r"layers count from 0 to 5|no layer") as caught:
        Span(text).resolve(6, "layer")
    assert caught.value.code == ExitCode.USAGE


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made = parse(text)
    except InspectError:
        return
    assert parse(str(made)) == parse(str(parse(str(made))))
