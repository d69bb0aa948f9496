"""What capture records equals what the family's own eager attention computes."""

from __future__ import annotations

import pytest
import torch

from tests.model import tiny
from tui_attn.answers import VARIANTS
from tui_attn.errors import Cancelled
from tui_attn.maps import checks, softmax
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model import adapter, capture
from tui_attn.model.trace import Trace
from tui_attn.progress import Job

LENGTH = 30


def eager(model: object, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        return model(input_ids=ids, output_attentions=True, use_cache=False)


def captured(model: object, ids: torch.Tensor, job: Job | None = None) -> Trace:
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return capture.capture(model, inputs, sites, job or Job())


def text(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(
        4, tiny.VOCABULARY, (1, length), generator=torch.Generator().manual_seed(1)
    )


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_attention_equals_eager_attention(family: str) -> None:
    model, ids = tiny.model(family), text()
    expected = eager(model, ids).attentions
    trace = captured(model, ids)
    assert sorted(trace.layers) == list(range(3))
    for number, layer in trace.layers.items():
        for head in range(layer.heads):
            actual = softmax.attention_rows(layer, head, (0, LENGTH))
            torch.testing.assert_close(actual.float(), expected[number][0, head], rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_outputs_hidden_states_and_checks(family: str) -> None:
    model, ids = tiny.model(family), text()
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    trace = captured(model, ids)
    assert len(trace.hidden) == 4
    # The last one of decoders is after the final norm there, the residual stream here.
    for actual, wanted in zip(trace.hidden[:-1], expected[:-1], strict=True):
        torch.testing.assert_close(actual, wanted[0], rtol=0, atol=1e-4)
    causal = trace.layers[0].visibility.is_causal
    assert all(check.ok for check in checks.of_run(trace, {}, causal, Job()).checks)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "llama", "qwen2", "qwen3", "mistral"])
def test_decoders_never_see_the_future(family: str) -> None:
    """The worst trap: without a mask function under the same name the mask is silently lost."""
    model = tiny.model(family)
    trace = captured(model, text())
    changed = text()
    changed[0, -1] = (changed[0, -1] + 1) % tiny.VOCABULARY
    again = captured(model, changed)
    for layer, other in zip(trace.layers.values(), again.layers.values(), strict=True):
        assert layer.visibility.is_causal
        torch.testing.assert_close(layer.o[:, :-1], other.o[:, :-1], rtol=0, atol=1e-6)
        for head in range(layer.heads):
            assert bool((softmax.attention_rows(layer, head, (0, LENGTH)).triu(1) == 0).all())


def test_a_sliding_window_is_kept_as_intervals() -> None:
    layer = captured(tiny.model("mistral"), text()).layers[0]
    last = softmax.attention_rows(layer, 0, (LENGTH - 1, LENGTH))[0]
    assert int((last > 0).sum()) == 5
    assert layer.visibility.first.tolist() == [max(0, row - 4) for row in range(LENGTH)]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_value_bias_is_found(family: str) -> None:
    """Values less their bias are linear in the layer's input: half the input, half the values."""
    model = tiny.model(family)
    sites, call = capture.verify(model, tiny.VOCABULARY)
    kv_heads, width = call.v.shape[1], call.v.shape[-1]
    bias, known = adapter.value_bias(sites[0], kv_heads, width)
    assert known
    inputs: list[torch.Tensor] = []

    def halve(_: object, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inputs.append(args[0])
        return (args[0] / 2, *args[1:])

    projection = next(
        getattr(sites[0].attention, name)
        for name in ("value", "v_proj", "v_lin", "c_attn", "query_key_value")
        if hasattr(sites[0].attention, name)
    )
    ids = text()
    whole = captured(model, ids).layers[0].v
    with_hook = projection.register_forward_pre_hook(halve)
    half = captured(model, ids).layers[0].v
    with_hook.remove()
    shift = torch.zeros(kv_heads, width) if bias is None else bias
    torch.testing.assert_close(
        half - shift[:, None], (whole - shift[:, None]) / 2, rtol=0, atol=1e-5
    )
    assert (bias is None) == (family in ("llama", "qwen3", "mistral"))


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_output_projection_maps_heads_to_the_layer(family: str) -> None:
    model = tiny.model(family)
    sites, call = capture.verify(model, tiny.VOCABULARY)
    heads, width = call.q.shape[1], call.v.shape[-1]
    projection = adapter.output_projection(model, sites[0])
    assert projection is not None
    assert projection.shape == (48, heads * width)
    assert adapter.deficient_heads(model, sites[0], heads, width) == ()
    with torch.no_grad():
        projection[:, width] = 0  # the first column of head 1
    assert adapter.deficient_heads(model, sites[0], heads, width) == (1,)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_e22_effective_attention_in_the_model_changes_nothing(
    family: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put A_eff V in the place of A V inside the running model: the outputs stay."""
    model, ids = tiny.model(family, dtype=torch.float64), text()
    trace = captured(model, ids)
    with torch.inference_mode():
        expected = model(input_ids=ids, use_cache=False).last_hidden_state
    original = capture.sdpa_attention_forward
    moved = []

    def effective_forward(module: object, *args: object, **kwargs: object) -> object:
        output, weights = original(module, *args, **kwargs)
        layer = trace.layers[module.layer_idx]
        for head in range(layer.heads):
            a_eff = effective_rows(trace, module.layer_idx, head, (0, LENGTH), (0, LENGTH), variant)
            values = layer.v[layer.kv_head(head)].double()
            result = a_eff @ values
            if variant == "no-bias" and layer.value_bias is not None:
                bias = layer.value_bias[layer.kv_head(head)]
                result = a_eff @ (values - bias) + bias  # the constant to remember
            moved.append(
                float((a_eff - softmax.attention_rows(layer, head, (0, LENGTH))).abs().max())
            )
            output[0, :, head] = result
        return output, weights

    monkeypatch.setattr(capture, "sdpa_attention_forward", effective_forward)
    with torch.inference_mode():
        actual = model(input_ids=ids, use_cache=False).last_hidden_state
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
    assert max(moved) > 1e-2  # it was another attention


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_half_precision_runs_and_is_computed_again(family: str, dtype: torch.dtype) -> None:
    trace = captured(tiny.model(family, dtype=dtype), text())
    assert not trace.exact_outputs
    assert all(check.ok for check in checks.of_run(trace, {}, family == "llama", Job()).checks)


def test_the_mask_is_never_kept() -> None:
    trace = captured(tiny.model("mistral"), text(40))
    sizes = [
        tensor.numel()
        for layer in trace.layers.values()
        for tensor in (layer.q, layer.k, layer.v, layer.o, *vars(layer.visibility).values())
    ]
    assert max(sizes) <= 40 * 48


def test_cancelling_leaves_the_forward_pass_at_the_next_layer() -> None:
    model = tiny.model("bert")
    phases = []
    job = Job(lambda progress: (phases.append(progress.done), job.cancel()))
    with pytest.raises(Cancelled):
        captured(model, text(), job)
    assert phases == [1]
    assert all(not module._forward_hooks for module in model.modules())
