"""Levels keep order and sign; colours can be read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tui_attn.render import grid
from tui_attn.render.grid import CELL_WIDTH, Look, Zoom
from tui_attn.render.palette import BROKEN_CELL, COLOUR_MAPS, ColourMap, contrast, shade
from tui_attn.render.scale import BROKEN, NO_LEVEL, Scale, shared

VALUES = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-2, 2))


@given(VALUES)
def test_shares_rise_with_their_value(values: np.ndarray) -> None:
    levels = Scale(0, 1).levels(np.sort(values), 12).astype(int)
    assert (np.diff(levels) >= 0).all()
    assert levels.min() >= 0
    assert levels.max() <= 11


@given(VALUES)
def test_signs_are_never_lost(values: np.ndarray) -> None:
    levels = Scale(-1, 0.3, signed=True).levels(values, 13).astype(int)
    strong = np.abs(values) > 0.01  # weaker ones are as quiet as zero
    assert (np.sign(levels - 6) == np.sign(values))[strong].all()
    assert (np.sign(levels - 6) * np.sign(values) >= 0).all()
    assert (levels + Scale(-1, 0.3, signed=True).levels(-values, 13) == 12).all()


def test_nan_is_no_level_and_an_empty_span_is_no_error() -> None:
    assert Scale(0, 1).levels(np.array([math.nan]), 12)[0] == NO_LEVEL
    assert Scale(0, 0).levels(np.array([0.0]), 12)[0] == 0
    assert Scale(0, 0, signed=True).levels(np.array([0.0]), 13)[0] == 6


def test_nan_that_is_there_is_told_from_a_cell_that_is_not() -> None:
    levels = Scale(0, 1).levels(np.full(2, math.nan), 12, np.array([True, False]))
    assert levels.tolist() == [BROKEN, NO_LEVEL]


@given(VALUES, st.sampled_from([math.nan, math.inf, -math.inf]))
@example(np.zeros(2), math.inf)
def test_what_is_no_number_never_flattens_the_scale(values: np.ndarray, odd: float) -> None:
    scale = Scale(0.0, 0.0, signed=True).covering(values)
    assert (
        scale.covering(np.array([odd]))
        == scale
        == Scale(0.0, 0.0, True).covering(np.append(values, odd))
    )
    both = scale.levels(np.append(values, odd), 13)
    assert (both[:-1] == scale.levels(values, 13)).all()
    assert both[-1] == (NO_LEVEL if odd != odd else 12 if odd > 0 else 0)


ODD = [math.nan, math.inf, -math.inf, math.nan, 0.5]
SEEN = np.array([True, True, True, False, True])


@pytest.mark.parametrize("look", [Look(), Look(colour=False), Look(ascii=True)], ids=str)
@pytest.mark.parametrize("zoom", CELL_WIDTH)
def test_cells_name_what_is_no_number(look: Look, zoom: Zoom) -> None:
    drawn = grid.line(np.array(ODD), Scale(-1, 1, signed=True), zoom, look, None, SEEN)
    text, width = "".join(segment.text for segment in drawn), CELL_WIDTH[zoom]
    cells = [text[start : start + width] for start in range(0, 5 * width, width)]
    if zoom == "numbers":
        assert cells == [" NaN", " inf", "-inf", "    ", " .50"]
    else:
        assert cells[0].strip() == "?"
        assert cells[3].strip() == ""
        assert [cell.strip() for cell in cells].count("?") == 1
    if look.colour:
        assert drawn[0].style == BROKEN_CELL


def test_half_blocks_show_nan_in_a_grey_of_its_own() -> None:
    two = np.array([ODD, ODD[::-1]])
    seen = np.stack([SEEN, SEEN[::-1]])
    drawn = grid.line(two, Scale(-1, 1, signed=True), "half", Look(), None, seen)
    assert "".join(segment.text for segment in drawn) == "▀▀▀▄▀"
    assert drawn[0].style.color == BROKEN_CELL.bgcolor
    assert drawn[-1].style.bgcolor == BROKEN_CELL.bgcolor
    assert BROKEN_CELL.bgcolor.triplet not in {
        colour for one in COLOUR_MAPS for ramp in (one.share, one.signed) for colour in ramp.colours
    }


def test_maps_side_by_side_share_one_scale() -> None:
    assert shared([Scale(0, 0.9), Scale(-0.2, 0.5, signed=True)]) == Scale(-0.2, 0.9, signed=True)


@pytest.mark.parametrize("colours", COLOUR_MAPS, ids=lambda colours: colours.name)
def test_text_can_be_read_on_every_level(colours: ColourMap) -> None:
    for ramp in (colours.share, colours.signed):
        assert len(set(ramp.indices)) == len(ramp)
        for ink, colour in zip(ramp.inks, ramp.colours, strict=True):
            assert contrast(ink, colour) >= 4.5
    assert len(colours.signed) % 2 == 1


@pytest.mark.parametrize("ascii", [False, True])
def test_shades_rise_and_ignore_the_sign(ascii: bool) -> None:
    ramp = list(dict.fromkeys(shade(step / 100, ascii=ascii) for step in range(101)))
    assert len(ramp) in (5, 10)
    assert shade(-0.5, ascii=ascii) == shade(0.5, ascii=ascii)
