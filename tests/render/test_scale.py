"""Levels keep order and sign; colours can be read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tui_attn.render.palette import COLOUR_MAPS, ColourMap, contrast, shade
from tui_attn.render.scale import NO_LEVEL, Scale, shared

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
