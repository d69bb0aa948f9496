"""The packaged demo model: reference numbers, the cliff at 33 tokens, other routes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tests import toys
from tui_attn.answers import VARIANTS, Variant
from tui_attn.maps import softmax
from tui_attn.model import demo
from tui_attn.session import Session

pytestmark = pytest.mark.real

HEADS = list(product(range(6), range(12)))


def mean_over_heads(session: Session, text: str, tokens: int, variant: Variant) -> dict[str, float]:
    """The columns of the reference table (method, section 9.1)."""
    run = session.analyse(text, max_tokens=tokens)
    assert len(run.tokens) == tokens
    found = []
    for layer, head in HEADS:
        span = (0, tokens)
        raw = session.window("attention", layer, head, span, span).values
        eff = session.window("effective", layer, head, span, span, variant=variant).values
        found.append(
            {
                "correlation": np.corrcoef(raw.ravel(), eff.ravel())[0, 1],
                "negative": (eff < 0).mean(),
                "cls": eff[:, 0].mean(),
                "raw cls": raw[:, 0].mean(),
                "least sum": eff.sum(-1).min(),
                "largest sum": eff.sum(-1).max(),
            }
        )
    return {
        name: (min if name == "least sum" else max if name == "largest sum" else np.mean)(
            [head[name] for head in found]
        )
        for name in found[0]
    }


@pytest.mark.parametrize(
    "tokens,variant,correlation,cls,sums",
    [
        (16, "output", 1.000, 0.449, (1.0, 1.0)),
        (32, "output", 1.000, 0.366, (1.0, 1.0)),
        (32, "no-bias", 1.000, 0.366, (1.0, 1.0)),
        (33, "output", 0.734, 0.173, (0.00, 1.05)),
        (33, "no-bias", 0.787, None, (-0.07, 1.05)),
        (33, "sum-one", 1.000, 0.358, (1.0, 1.0)),
        (34, "output", 0.633, 0.101, (-0.01, 1.08)),
        (34, "no-bias", 0.696, None, (-0.06, 1.07)),
        (34, "sum-one", 0.985, 0.339, (1.0, 1.0)),
        (64, "output", 0.418, 0.003, (-0.05, 1.28)),
        (64, "no-bias", 0.422, None, (-0.32, 1.80)),
        (64, "sum-one", 0.627, 0.078, (1.0, 1.0)),
        (128, "output", 0.370, 0.001, (-0.08, 1.45)),
    ],
)
def test_reference_numbers_and_the_cliff(
    demo_session: Session,
    licence: str,
    tokens: int,
    variant: Variant,
    correlation: float,
    cls: float | None,
    sums: tuple[float, float],
) -> None:
    found = mean_over_heads(demo_session, licence, tokens, variant)
    assert found["correlation"] == pytest.approx(correlation, abs=1.5e-3)
    assert found["least sum"] == pytest.approx(sums[0], abs=6e-3)
    assert found["largest sum"] == pytest.approx(sums[1], abs=6e-3)
    if cls is not None:
        assert found["cls"] == pytest.approx(cls, abs=1e-3)
    if variant == "output" and tokens > 32:
        assert found["negative"] == pytest.approx(0.245, abs=0.03)


@pytest.mark.parametrize("tokens", [20, 32, 33, 40, 100])
def test_an_independent_computation_agrees(
    demo_session: Session, licence: str, tokens: int
) -> None:
    """Eager attention and a plain SVD of V W_O, from transformers alone, to 1e-4."""
    folder = demo.installed_folder()
    model = (
        AutoModel.from_pretrained(folder, attn_implementation="eager").eval().requires_grad_(False)
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(licence, truncation=True, max_length=tokens, return_tensors="pt")
    out = model(**inputs, output_attentions=True, output_hidden_states=True)
    demo_session.analyse(licence, max_tokens=tokens)
    span = (0, tokens)
    for layer, head in [(0, 0), (2, 7), (5, 3)]:
        block = model.encoder.layer[layer].attention
        part = slice(32 * head, 32 * head + 32)
        v = block.self.value(out.hidden_states[layer])[0, :, part].double()
        t = v @ block.output.dense.weight[:, part].T.double()
        a = out.attentions[layer][0, head].double()
        raw = demo_session.window("attention", layer, head, span, span).values
        eff = demo_session.window("effective", layer, head, span, span).values
        null = demo_session.window("null", layer, head, span, span).values
        expected = toys.effective(a, t, rtol=6e-5).numpy()
        np.testing.assert_allclose(raw, a.numpy(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(eff, expected, rtol=0, atol=1e-4)
        np.testing.assert_allclose(null, a.numpy() - expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_e1_on_the_real_model(demo_session: Session, licence: str, variant: Variant) -> None:
    demo_session.analyse(licence, max_tokens=80)
    span = (0, 80)
    for layer, head in HEADS[::7]:
        trace = demo_session.trace.layers[layer]
        eff = demo_session.window("effective", layer, head, span, span, variant=variant).values
        values = trace.v[head].double()
        bias = trace.value_bias
        assert bias is not None
        constant = 0.0
        if variant == "no-bias":
            values, constant = values - bias[head], bias[head].double()
        actual = torch.from_numpy(eff) @ values + constant
        expected = softmax.output_rows(trace, head, span)
        torch.testing.assert_close(actual, expected, rtol=0, atol=2e-6)


def test_head_statistics_follow_from_the_maps(demo_session: Session, licence: str) -> None:
    demo_session.analyse(licence, max_tokens=50)
    span = (0, 50)
    for layer in (0, 5):
        for summary in demo_session.summaries(layer):
            raw = demo_session.window("attention", layer, summary.head, span, span).values
            eff = demo_session.window("effective", layer, summary.head, span, span).values
            assert (summary.rank, summary.null_dimension, summary.identifiable) == (32, 18, False)
            assert summary.visible_keys == 50
            share = np.linalg.norm(raw - eff) / np.linalg.norm(raw)
            entropy = -(raw * np.log(raw)).sum(-1).mean() / math.log(50)
            assert summary.null_share == pytest.approx(share, rel=1e-6)
            assert summary.correlation == pytest.approx(
                np.corrcoef(raw.ravel(), eff.ravel())[0, 1], rel=1e-6
            )
            assert summary.entropy == pytest.approx(entropy, rel=1e-6)
            assert summary.negative_share == pytest.approx((eff < 0).mean(), rel=1e-9)
            assert summary.first_token_share == pytest.approx(raw[:, 0].mean(), rel=1e-9)
            assert summary.row_sum_min == pytest.approx(eff.sum(-1).min(), rel=1e-9)
            assert summary.row_sum_max == pytest.approx(eff.sum(-1).max(), rel=1e-9)
            assert summary.output_error < 1e-5


def test_no_head_hides_a_larger_null_space(demo_session: Session, licence: str) -> None:
    run = demo_session.analyse(licence, max_tokens=40)
    assert {check.name: check.ok for check in run.checks} == {
        "row sums": True,
        "A V = o": True,
        "W_O rank": True,
    }
