"""Attribution on the packaged demo model: the reference numbers of method, section 9.3."""

from __future__ import annotations

import pytest
import torch

from tui_attn.answers.attribution import Norm
from tui_attn.maps.contributions import own_shares
from tui_attn.maps.jacobians import Estimate, Exact
from tui_attn.model.tangents import Tangents
from tui_attn.session import Session

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pusher(demo_session: Session, licence: str) -> Tangents:
    loaded = demo_session._loaded
    inputs = loaded.tokenizer(licence, truncation=True, max_length=24, return_tensors="pt")
    return Tangents(loaded.model, dict(inputs), loaded.sites)


@pytest.fixture(scope="module")
def exact(pusher: Tangents) -> Exact:
    """Half a minute on two quiet cores."""
    found = Exact(pusher)
    found.sweep()
    return found


@pytest.mark.parametrize(
    "norm,medians,not_main",
    [
        (
            "frobenius",
            [1, 0.441, 0.345, 0.288, 0.245, 0.220, 0.136],
            [0, 0, 0, 0, 4.2, 25.0, 29.2],
        ),
        ("ones", [1, 0.471, 0.346, 0.265, 0.173, 0.132, 0.156], [0, 0, 0, 0, 4.2, 29.2, 8.3]),
    ],
)
def test_reference_numbers(
    exact: Exact, norm: Norm, medians: list[float], not_main: list[float]
) -> None:
    found = [own_shares(exact.shares(layer, norm), "") for layer in range(7)]
    assert [own.median for own in found] == pytest.approx(medians, abs=6e-4)
    assert [100 * own.not_main for own in found] == pytest.approx(not_main, abs=0.05)
    if norm == "frobenius":
        least = [1, 0.399, 0.262, 0.180, 0.064, 0.055, 0.058]
        assert [own.minimum for own in found] == pytest.approx(least, abs=6e-4)


def test_estimates_come_close(pusher: Tangents, exact: Exact) -> None:
    estimate = Estimate(pusher, seed=0)
    for probes, limit in ((8, 0.05), (16, 0.03)):
        estimate.refine(probes)
        for layer in range(7):
            error = (estimate.shares(layer) - exact.shares(layer)).abs()
            assert float(error.max()) <= limit
    errors = torch.stack([estimate.shares(layer) - exact.shares(layer) for layer in range(1, 7)])
    bars = torch.stack([estimate.standard_error(layer) for layer in range(1, 7)])
    assert float((errors.abs() <= 3 * bars).double().mean()) >= 0.95


def test_a_backward_pass_agrees(pusher: Tangents, demo_session: Session) -> None:
    """One row of J^T by reverse mode, the model's own kernel, against tangents: v . (J u)."""
    block = pusher._blocks[0]
    model = demo_session._loaded.model
    states: list[torch.Tensor] = []
    start = block.hidden.clone().requires_grad_(True)
    hidden = start
    with torch.enable_grad():
        for layer in model.encoder.layer:
            hidden = layer(hidden)
            states.append(hidden)
    total = pusher.push(torch.tensor([4]), torch.ones(1, 384)).sums[:, 0]
    for layer, state in enumerate(states, 1):
        (gradient,) = torch.autograd.grad(state[0, 9].sum(), start, retain_graph=True)
        expected = float(gradient[0, 4].sum()) ** 2
        assert float(total[layer, 9]) == pytest.approx(expected, rel=1e-3, abs=1e-6)
