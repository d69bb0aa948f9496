"""Attribution: what must hold (method, section 8.3), on toys and on tiny models of the families."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr

from tests.model import tiny
from tui_attn.answers import Token
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.maps.contributions import (
    by_distance,
    by_offset,
    kinds,
    mixing,
    rank_correlation,
)
from tui_attn.maps.jacobians import Estimate, Exact, shares_of
from tui_attn.model import adapter, blocks, capture
from tui_attn.model.linearised import LinearBlock
from tui_attn.model.tangents import Pushed, Tangents
from tui_attn.progress import Job, Progress

LENGTH = 7
DECODERS = ["gpt2", "gpt_neox", "llama", "qwen2", "qwen3", "mistral"]
POST_NORM = [
    "bert",
    "roberta",
    "distilbert",
    "albert",
    "electra",
    "xlm-roberta",
    "camembert",
    "mpnet",
]
POST_NORM += ["deberta-v2", "deberta-v2 without buckets"]
# Grouped products of experts take no float64.
EXPERTS = ["mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3", "qwen3_next", "jamba"]
# Families whose blocks are never matrices: hybrids, and attention that is read by hooks.
BY_BLOCKS = ["qwen3_next", "jamba", "mpnet", "deberta-v2", "deberta-v2 without buckets"]
BY_BLOCKS += ["bloom", "gpt_neo", "mpt"]
# RMS norms, and some softmaxes, compute in float32 even in a float64 model.
IN_FLOAT64 = ["bert", "roberta", "distilbert", "gpt2"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and threads wait long for one another when busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Toy:
    """Jacobians drawn at random, pushed by a plain product: (layers + 1, query, input, d, d)."""

    def __init__(self, length: int = 6, width: int = 8, layers: int = 2, batch: int = 5) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = (layers + 1, length, length, width, width)
        self.jacobians = torch.randn(*shape, generator=generator, dtype=torch.float64)
        self.length, self.width, self.layers, self.batch = length, width, layers, batch

    def prepare(self, count: int, job: Job | None = None) -> None:
        pass

    def push(
        self, positions: torch.Tensor, vectors: torch.Tensor, job: Job | None = None
    ) -> Pushed:
        moved = torch.einsum("litab,tb->ltia", self.jacobians[:, :, positions], vectors.double())
        return Pushed(moved.square().sum(-1), moved.sum(-1).square())


def text(length: int = LENGTH) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, tiny.VOCABULARY, (1, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def tangents(
    model: Any, inputs: dict[str, torch.Tensor] | None = None, batch: int | None = None
) -> Tangents:
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    return Tangents(model, inputs or text(), sites, batch=batch)


def exact(model: Any, inputs: dict[str, torch.Tensor] | None = None) -> Exact:
    found = Exact(tangents(model, inputs))
    found.sweep()
    return found


def shares(found: Exact) -> torch.Tensor:
    return torch.stack([found.shares(layer) for layer in range(4)])


def eager_states(
    model: Any, inputs: dict[str, torch.Tensor], start: torch.Tensor | None = None
) -> torch.Tensor:
    """Input of the first block and outputs of the blocks, (4, s, d), by hooks of our own."""
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    states: list[torch.Tensor] = []

    def before(_: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if states:  # a block that all layers share
            return None
        states.append(args[0][0] if start is None else start)
        return (states[0][None], *args[1:]), kwargs

    def after(_: object, __: object, output: Any) -> None:
        states.append((output if isinstance(output, torch.Tensor) else output[0])[0])

    stack = adapter.hidden_state_blocks(sites)
    handles = [block.register_forward_hook(after) for block in stack]
    handles.append(stack[0].register_forward_pre_hook(before, with_kwargs=True))
    model.set_attn_implementation("eager")
    model(**inputs, use_cache=False)
    for handle in handles:
        handle.remove()
    return torch.stack(states)


def reverse_mode(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """All Jacobians by torch.autograd: (4, query, d, input, d)."""
    start = eager_states(model, inputs)[0]
    return torch.autograd.functional.jacobian(
        lambda hidden: eager_states(model, inputs, hidden), start, vectorize=True
    )


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_h1_h2_h3_shares(family: str) -> None:
    found = shares(exact(tiny.model(family)))
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(-1), torch.ones(4, LENGTH, dtype=torch.float64))
    assert torch.equal(found[0], torch.eye(LENGTH, dtype=torch.float64))
    assert bool((found[1:].tril() > 0).sum() == 3 * LENGTH * (LENGTH + 1) / 2) or (
        family == "mistral"  # whose window ends before the first keys
    )
    if family in DECODERS:
        assert bool((found.triu(1) == 0).all())
        assert bool((found[:, 0, 0] == 1).all())


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_h4_without_attention_output_every_token_is_its_own(family: str) -> None:
    model = tiny.model(family)
    for name, parameter in model.named_parameters():
        if name.endswith(("attention.output.dense.weight", "o_proj.weight")):
            parameter.data.zero_()
    found = shares(exact(model))
    assert torch.equal(found, torch.eye(LENGTH, dtype=torch.float64).expand(4, -1, -1))


@pytest.mark.parametrize("residual", [False, True])
def test_h5_h6_value_path_with_frozen_attention(residual: bool) -> None:
    width, heads = 8, 1
    generator = torch.Generator().manual_seed(0)
    attention = torch.rand(LENGTH, LENGTH, generator=generator).double()
    attention /= attention.sum(-1, keepdim=True)
    matrix = torch.randn(width, width, generator=generator).double()
    nothing = torch.zeros(heads, LENGTH, width, dtype=torch.float64)
    eye = torch.eye(width, dtype=torch.float64).expand(LENGTH, -1, -1)
    block = LinearBlock(
        enter=torch.cat([torch.zeros(2 * width, width, dtype=torch.float64), matrix]).expand(
            LENGTH, -1, -1
        ),
        leave_heads=eye,
        leave_input=eye * float(residual),
        query=nothing[:, None],
        key=nothing,
        value=nothing,
        weights=attention[None, None],
        scaling=1.0,
    )
    norms = torch.empty(LENGTH, LENGTH, dtype=torch.float64)
    for position in range(LENGTH):
        moved = block.push(eye[:1], slice(position, position + 1), slice(0, LENGTH))
        norms[:, position] = torch.linalg.matrix_norm(moved)
    if not residual:
        torch.testing.assert_close(shares_of(norms), attention)
        return
    expected = attention * torch.linalg.matrix_norm(matrix)
    for i in range(LENGTH):
        expected[i, i] = torch.linalg.matrix_norm(eye[0] + attention[i, i] * matrix)
    torch.testing.assert_close(norms, expected)


def precise(family: str) -> Any:
    return tiny.model(family, dtype=torch.float32 if family in EXPERTS else torch.float64)


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.OTHERS])
def test_h7_h9_forward_mode_equals_reverse_mode(family: str) -> None:
    """Windows, soft caps, sinks, experts and recurrences are derived too."""
    model, inputs = precise(family), text()
    jacobians = reverse_mode(model, inputs).double()
    tolerance = 1e-10 if family in IN_FLOAT64 else 1e-5
    found = exact(model, inputs)
    for layer in range(4):
        norms = jacobians[layer].transpose(1, 2).square().sum((2, 3)).sqrt()
        torch.testing.assert_close(found.shares(layer), shares_of(norms), rtol=0, atol=tolerance)
        ones = jacobians[layer].sum(1).square().sum(-1).sqrt()
        assert bool((ones <= math.sqrt(48) * norms * (1 + 1e-9)).all())
        if layer and family in POST_NORM:
            # A layer norm of weight one lets nothing through to the sum of its outputs.
            assert bool(found.shares(layer, "ones").isnan().all())
        else:
            torch.testing.assert_close(
                found.shares(layer, "ones"), shares_of(ones), rtol=0, atol=tolerance
            )
    assert getattr(model.config, "_experts_implementation", "eager") == "eager" or (
        family in EXPERTS  # which are put back
    )


@pytest.mark.parametrize("family", IN_FLOAT64)
def test_h7_forward_mode_equals_finite_differences(family: str) -> None:
    model, inputs = tiny.model(family, dtype=torch.float64), text()
    start = eager_states(model, inputs)[0]
    vector = torch.randn(48, generator=torch.Generator().manual_seed(2)).double()
    step = torch.zeros_like(start)
    step[3] = 1e-6 * vector
    difference = (
        eager_states(model, inputs, start + step) - eager_states(model, inputs, start - step)
    ) / 2e-6
    pushed = tangents(model, inputs).push(torch.tensor([3]), vector[None])
    torch.testing.assert_close(
        pushed.squares[:, 0], difference.square().sum(-1), rtol=1e-4, atol=1e-10
    )


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.OTHERS])
def test_matrices_do_what_the_blocks_do(family: str) -> None:
    model = precise(family)
    positions = torch.arange(LENGTH).repeat(4)[2:]
    vectors = torch.randn(len(positions), 48, generator=torch.Generator().manual_seed(3))
    pusher = tangents(model)
    direct = pusher.push(positions, vectors)
    pusher.prepare(10)
    assert not pusher.linearised  # too few to be worth it
    pusher.prepare(10_000)
    assert pusher.linearised == (family not in BY_BLOCKS)
    together = pusher.push(positions, vectors)
    torch.testing.assert_close(together.squares, direct.squares, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(together.sums, direct.sums, rtol=1e-3, atol=5e-4)


def test_h8_the_estimate_is_unbiased_and_converges() -> None:
    toy = Toy()
    truth = Exact(toy)
    truth.sweep()
    errors = []
    for probes in (16, 64, 256, 1024):
        estimate = Estimate(toy, seed=1)
        estimate.refine(probes)
        assert estimate.probes == probes
        errors.append(float((estimate.shares(2) - truth.shares(2)).square().mean().sqrt()))
    for fewer, more in pairwise(errors):
        assert 1.4 < fewer / more < 2.9  # about the root of four
    squares = toy.jacobians[2].square().sum((-1, -2))
    torch.testing.assert_close(estimate._means(2), squares, rtol=0.06, atol=0)


@pytest.mark.parametrize("probes", [8, 32])
def test_the_error_bar_holds_the_truth(probes: int) -> None:
    """Three standard errors, in at least 95 of 100 cells with a seed of their own."""
    toy = Toy(length=6)
    truth = Exact(toy)
    truth.sweep()
    inside = 0
    for seed in range(100):
        estimate = Estimate(toy, seed)
        estimate.refine(probes)
        cell = (1 + seed % 2, seed % 6, seed // 6 % 6)
        error = (estimate.shares(cell[0]) - truth.shares(cell[0])).abs()[cell[1:]]
        inside += bool(error <= 3 * estimate.standard_error(cell[0])[cell[1:]])
    assert inside >= 95


def test_a_seed_fixes_the_estimate_however_it_is_cut() -> None:
    small, large = Estimate(Toy(batch=3), seed=5), Estimate(Toy(batch=64), seed=5)
    small.refine(4)
    small.refine(9)
    large.refine(9)
    torch.testing.assert_close(small.shares(1), large.shares(1))
    torch.testing.assert_close(small.standard_error(1), large.standard_error(1))
    other = Estimate(Toy(), seed=6)
    other.refine(9)
    assert not torch.equal(other.shares(1), large.shares(1))


def test_an_estimate_before_its_first_probes() -> None:
    estimate = Estimate(Toy())
    with pytest.raises(InspectError):
        estimate.shares(1)
    estimate.refine(1)
    assert bool(estimate.standard_error(1).isnan().all())


def test_h9_with_one_component_both_norms_are_one() -> None:
    found = Exact(Toy(width=1))
    found.sweep()
    torch.testing.assert_close(found.shares(2), found.shares(2, "ones"))


def test_h10_without_positions_shares_move_with_the_tokens() -> None:
    model, inputs = tiny.model("bert", dtype=torch.float64), text()
    model.embeddings.position_embeddings.weight.zero_()
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(4))
    moved = {**inputs, "input_ids": inputs["input_ids"][:, order]}
    before, after = shares(exact(model, inputs)), shares(exact(model, moved))
    torch.testing.assert_close(after, before[:, order][:, :, order], rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_h11_the_chain_of_the_layers(family: str) -> None:
    model, inputs = tiny.model(family, dtype=torch.float64), text()
    pusher = tangents(model, inputs)
    product = torch.eye(LENGTH * 48, dtype=torch.float64)
    found = exact(model, inputs)
    for layer, block in enumerate(pusher._blocks, 1):
        with blocks.plain_attention(model), torch.enable_grad():
            jacobian = torch.autograd.functional.jacobian(block, block.hidden, vectorize=True)
        product = jacobian.reshape(LENGTH * 48, LENGTH * 48) @ product
        norms = product.view(LENGTH, 48, LENGTH, 48).square().sum((1, 3)).sqrt()
        torch.testing.assert_close(found.shares(layer), shares_of(norms), rtol=0, atol=1e-10)


@pytest.mark.parametrize("left", [False, True])
def test_h12_padding_contributes_nothing(left: bool) -> None:
    model, inputs = tiny.model("gpt2" if left else "bert", dtype=torch.float64), text()
    real = slice(3, 3 + LENGTH) if left else slice(0, LENGTH)
    widths = (3, 0) if left else (0, 3)
    padded = {name: torch.nn.functional.pad(value, widths) for name, value in inputs.items()}
    if left:
        padded["position_ids"] = (padded["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    jacobians = reverse_mode(model, padded)[:, real].transpose(2, 3)
    norms = jacobians.square().sum((-1, -2)).sqrt()
    assert float(norms.sum() - norms[..., real].sum()) < 1e-9
    expected = shares_of(norms[..., real])
    torch.testing.assert_close(shares(exact(model, inputs)), expected, rtol=0, atol=1e-10)


def test_h13_and_the_tables() -> None:
    given = torch.tensor([[0.4, 0.4, 0.2], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
    made = mixing(given, "0", ["special", "word start", "special"])
    own = made.own
    assert own.not_main == pytest.approx(1 / 3)  # the tie of the first row goes to the own token
    assert (own.minimum, own.median, own.maximum) == pytest.approx((0.3, 0.4, 0.8))
    assert (own.lower, own.upper) == pytest.approx((0.35, 0.6))
    assert by_offset(given) == pytest.approx({-2: 0.1, -1: 0.6, 0: 1.5, 1: 0.6, 2: 0.2})
    assert (made.before, made.after) == pytest.approx((0.7 / 3, 0.8 / 3))
    assert made.own_each.tolist() == pytest.approx([0.4, 0.3, 0.8])
    distances = {name: parts for name, *parts in made.distances}
    assert distances["1"] == pytest.approx([0.6 / 1.5, 0.6 / 1.5])
    assert distances["2"] == pytest.approx([0.1 / 1.5, 0.2 / 1.5])
    assert distances["11+"] == [0, 0]
    assert all(math.isnan(part) for part in by_distance(torch.eye(3))[0][1:])
    special, word = made.kinds
    assert (special.tokens, special.own, special.given) == pytest.approx((2, 0.6, 2.2 / 3))
    assert (word.kind, word.given) == ("word start", pytest.approx(0.8 / 3))


def test_one_token_is_its_own() -> None:
    found = shares(exact(tiny.model("bert"), text(1)))
    assert torch.equal(found, torch.ones(4, 1, 1, dtype=torch.float64))


def test_the_tokens_of_long_bins() -> None:
    uniform = torch.full((30, 30), 1 / 30, dtype=torch.float64)
    assert sum(one + other for _, one, other in by_distance(uniform)) == pytest.approx(1)


def test_kinds_of_tokens() -> None:
    named = ["[CLS]", "un", "##do", "1984", "·2", ".", "·—", "v2", "##s", "⏎", "猫", "[SEP]"]
    words = [0, 1, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9]
    tokens = [
        Token(place, place, name, name, name.startswith("[") and len(name) > 1, word)
        for place, (name, word) in enumerate(zip(named, words, strict=True))
    ]
    assert kinds(tokens) == [
        "special",
        "word start",
        "continuation",
        "number",
        "number",
        "punctuation",
        "punctuation",
        "word start",
        "continuation",
        "word start",
        "word start",
        "special",
    ]


def test_rank_correlation_is_spearmans() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        one, other = torch.randint(0, 6, (2, 15), generator=generator).double()
        expected = spearmanr(one.numpy(), other.numpy()).statistic
        assert rank_correlation(one, other) == pytest.approx(expected)
    assert math.isnan(rank_correlation(torch.ones(4), torch.arange(4)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_half_precision_weights_are_computed_in_float32(family: str, dtype: torch.dtype) -> None:
    model = tiny.model(family, dtype=dtype)
    found = shares(exact(model))
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    torch.testing.assert_close(found, shares(exact(model.float())), rtol=0, atol=0.02)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ],
)
def test_where_memory_runs_out_batches_are_halved(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    model = tiny.model("bert", dtype=torch.float64)
    positions, vectors = torch.arange(LENGTH).repeat(3), torch.randn(3 * LENGTH, 48)
    expected = tangents(model).push(positions, vectors)
    plain = blocks.Block.tangent

    def small_only(block: blocks.Block, moved: torch.Tensor) -> torch.Tensor:
        if len(moved) > 6:
            raise error
        return plain(block, moved)

    monkeypatch.setattr(blocks.Block, "tangent", small_only)
    pusher = tangents(model, batch=20)
    torch.testing.assert_close(pusher.push(positions, vectors).squares, expected.squares)
    assert (pusher.batch, pusher.halved) == (5, 2)
    monkeypatch.setattr(blocks.Block, "tangent", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(InspectError) as caught:
        pusher.push(positions, vectors)
    assert caught.value.code == ExitCode.INPUT
    assert model.config._attn_implementation == capture.IMPLEMENTATION


def test_other_errors_are_not_taken_for_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pusher = tangents(tiny.model("bert"))
    for error, wanted in (
        (RuntimeError("a bug"), RuntimeError),
        (NotImplementedError(), InspectError),
    ):
        monkeypatch.setattr(
            blocks.Block, "tangent", lambda *_, error=error: (_ for _ in ()).throw(error)
        )
        with pytest.raises(wanted):
            pusher.push(torch.tensor([0]), torch.ones(1, 48))
    assert pusher.halved == 0


def test_without_memory_for_matrices_the_blocks_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pusher = tangents(tiny.model("bert"))

    def none(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(blocks, "linearise", none)
    found = Exact(pusher)
    found.sweep()
    assert found.complete
    assert not pusher.linearised


def test_a_cancelled_sweep_goes_on_where_it_stopped() -> None:
    model = tiny.model("bert")
    found = Exact(tangents(model))
    job = Job(
        lambda progress: job.cancel() if progress == Progress("exact attribution", 3, 7) else None
    )
    with pytest.raises(Cancelled):
        found.sweep(job)
    assert int(found.done.sum()) == 3
    with pytest.raises(InspectError, match="3 of 7"):
        found.shares(1)
    assert model.config._attn_implementation == capture.IMPLEMENTATION
    seen: list[Progress] = []
    found.sweep(Job(seen.append))
    assert seen[-1] == Progress("exact attribution", 6, 7)
    torch.testing.assert_close(shares(found), shares(exact(model)))


def test_a_cancelled_estimate_keeps_its_probes() -> None:
    toy = Toy(batch=4)
    estimate = Estimate(toy, seed=2)
    job = Job(lambda progress: job.cancel() if progress.done >= 16 else None)
    with pytest.raises(Cancelled):
        estimate.refine(8, job)
    assert estimate.counts.tolist() == [4, 4, 3, 3, 3, 3]
    partial = estimate.shares(1)
    torch.testing.assert_close(partial.sum(-1), torch.ones(6, dtype=torch.float64))
    estimate.refine(8)
    whole = Estimate(toy, seed=2)
    whole.refine(8)
    torch.testing.assert_close(estimate.shares(1), whole.shares(1))


def test_what_happens_between_blocks_is_refused() -> None:
    model = tiny.model("bert")
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    handle = model.encoder.layer[1].register_forward_pre_hook(
        lambda _, args: (args[0] * 2, *args[1:])
    )
    with pytest.raises(InspectError) as caught:
        Tangents(model, text(), sites)
    handle.remove()
    assert caught.value.code == ExitCode.UNSUPPORTED
