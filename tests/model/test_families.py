"""Every row of the table of families, on a tiny random model, against its own eager attention."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.model import tiny
from tests.model.test_capture import captured, eager, text
from tui_attn.answers import ModelRequest
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.answers.identity import IdentityChoices
from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import checks, softmax
from tui_attn.maps.factors import relative_tolerance
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model import adapter, capture, families, loading
from tui_attn.progress import Job
from tui_attn.session import open_session

LENGTH = 30
"""Longer than the head width and one (12 + 1) and than the windows (4 to 8)."""
LISTED = [
    name
    for name in (*tiny.FAMILIES, *tiny.OTHERS)
    if families.of_type(tiny.config(name).model_type) is not None
]
FULL = [family for family in families.FAMILIES if family.support == "full"]
REFUSED = [family for family in families.FAMILIES if family.support == "refused"]
ATTENTION_ONLY_AT = {"qwen3_next": [1], "jamba": [1]}


def reference(
    attention: np.ndarray, values: np.ndarray, seen: np.ndarray, ones: bool
) -> np.ndarray:
    """Effective attention row by row: the projection on the values that the query sees."""
    found = np.zeros_like(attention)
    for row, visible in enumerate(seen):
        keys = values[visible]
        if ones:
            keys = np.concatenate([keys, np.full((len(keys), 1), np.sqrt((values**2).mean()))], 1)
        left, singular, _ = np.linalg.svd(keys, full_matrices=False)
        left = left[:, singular > relative_tolerance(*keys.shape) * singular[0]]
        found[row, visible] = attention[row, visible] @ left @ left.T
    return found


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.OTHERS])
def test_attention_outputs_and_effective_attention(family: str) -> None:
    model, ids = tiny.model(family), text(LENGTH)
    expected = [plane for plane in eager(model, ids).attentions if plane is not None]
    trace = captured(model, ids)
    assert sorted(trace.layers) == ATTENTION_ONLY_AT.get(family, [0, 1, 2])
    assert len(trace.hidden) == 4
    for plane, layer in zip(expected, trace.layers.values(), strict=True):
        assert layer.length > layer.v.shape[-1] + 1
        for head in range(layer.heads):
            raw = softmax.attention_rows(layer, head, (0, LENGTH))
            values = layer.v[layer.kv_head(head)].double()
            torch.testing.assert_close(raw.float(), plane[0, head, :, :LENGTH], rtol=0, atol=1e-5)
            scale = float(layer.o[head].abs().max())
            torch.testing.assert_close(
                raw @ values, layer.o[head].double(), rtol=0, atol=1e-5 * max(scale, 1.0)
            )
        seen = layer.visibility.mask((0, LENGTH), (0, LENGTH)).numpy()
        head = layer.heads - 1  # the last of its group
        values = layer.v[layer.kv_head(head)].double().numpy()
        attention = softmax.attention_rows(layer, head, (0, LENGTH)).numpy()
        for variant in ("output", "sum-one"):
            actual = effective_rows(
                trace, layer.layer, head, (0, LENGTH), (0, LENGTH), variant
            ).numpy()
            wanted = reference(attention, values, seen, variant == "sum-one")
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
            np.testing.assert_allclose(actual @ values, attention @ values, rtol=0, atol=1e-4)
    causal = all(layer.visibility.is_causal for layer in trace.layers.values())
    assert all(check.ok for check in checks.of_run(trace, {}, causal, Job()).checks)


def test_every_type_of_the_table_is_tested() -> None:
    tested = {tiny.config(name).model_type for name in (*LISTED, *tiny.ENCODER_DECODERS)}
    assert {name for family in FULL for name in family.types} <= tested
    assert all(family.note for family in REFUSED)


@pytest.mark.parametrize("family", LISTED)
def test_a_listed_family_answers_everything(tmp_path: Path, family: str) -> None:
    session = open_session(ModelRequest(str(tiny.save(family, tmp_path))))
    run = session.analyse("the cat sat on the mat and slept")
    assert all(check.ok for check in run.checks), run.checks
    layer = session.model.attention_layers[-1]
    length = len(run.tokens)
    window = session.window("effective", layer, 0, (0, length), (0, length))
    assert np.isfinite(window.values[window.visible]).all()
    assert len(session.summaries(layer)) == session.model.heads
    names = ("emb", *map(str, range(session.model.layers)))
    assert session.identity.layers == names
    rates = session.identity.rates(IdentityChoices())
    assert [rate.layer for rate in rates] == list(names)
    choices = AttributionChoices(probes=2)
    session.attribution.refine(choices)
    shares = session.attribution.shares(session.model.layers - 1, choices)
    torch.testing.assert_close(shares.sum(-1), torch.ones(length, dtype=torch.float64))


@pytest.mark.parametrize("model_type", [name for family in REFUSED for name in family.types])
def test_a_refused_family_is_refused_in_a_sentence(model_type: str) -> None:
    config = transformers.AutoConfig.for_model(model_type)
    with pytest.raises(InspectError) as caught:
        loading._refuse_family(config)
    assert caught.value.code == ExitCode.UNSUPPORTED
    family = families.of_type(model_type)
    assert family is not None
    assert family.note in str(caught.value)


@pytest.mark.parametrize(
    "family,settings", [("mamba", {"state_size": 4}), ("xlnet", {"n_head": 4, "d_head": 12})]
)
def test_what_capture_does_not_reproduce_is_refused_without_the_table(
    family: str, settings: dict[str, int]
) -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        family, vocab_size=64, hidden_size=48, num_hidden_layers=2, **settings
    )
    model = transformers.AutoModel.from_config(config).eval()
    with pytest.raises(InspectError) as caught:
        capture.verify(model, 64)
    assert caught.value.code == ExitCode.UNSUPPORTED


def test_attention_that_is_not_what_the_hooks_read_is_refused() -> None:
    """Outputs are right whatever the hooks read, so what they read is checked by itself."""
    model = tiny.model("mpnet")
    attention = model.encoder.layer[1].attention.attn
    plain = attention.forward

    def another(hidden_states: Any, attention_mask: Any, position_bias: Any, **_: Any) -> Any:
        return plain(hidden_states, None, 3 * position_bias)

    attention.forward = another
    with pytest.raises(InspectError, match="another attention"):
        capture.verify(model, tiny.VOCABULARY)


def test_sinks_take_what_is_missing(tmp_path: Path) -> None:
    session = open_session(ModelRequest(str(tiny.save("gpt_oss", tmp_path))))
    run = session.analyse("the cat sat on the mat and slept")
    sums = next(check for check in run.checks if check.name == "row sums")
    assert sums.ok
    assert sums.note.startswith("sinks take 0.")
    length = len(run.tokens)
    missing, head, row = max(
        (session.cell(1, head, row, row).missing, head, row)
        for head in range(session.model.heads)
        for row in range(13, length)  # where attention is not identifiable
    )
    assert 0.01 < missing < 1
    raw, kept = (
        session.window(name, 1, head, (row, row + 1), (0, length), variant="sum-one")
        for name in ("attention", "effective")
    )
    assert missing == pytest.approx(1 - np.nansum(raw.values))
    assert np.nansum(kept.values) == pytest.approx(1 - missing)


def test_a_soft_cap_flattens_attention() -> None:
    """The comparison above would not see a cap that never bites."""
    ids = text()
    capped = captured(tiny.model("gemma2"), ids).layers[1]
    loose = captured(tiny.model("gemma2", attn_logit_softcapping=None), ids).layers[1]
    assert capped.softcap == 2.0
    assert loose.softcap is None
    difference = softmax.attention_rows(capped, 0, (0, 30)) - softmax.attention_rows(
        loose, 0, (0, 30)
    )
    assert float(difference.abs().max()) > 0.01


@pytest.mark.parametrize("family", [*tiny.FAMILIES, *tiny.OTHERS])
def test_value_bias_is_found_or_said_to_be_unknown(family: str) -> None:
    """Halve what goes into the attention module: values less their bias are halved with it."""
    model, ids = tiny.model(family), text()
    sites, call = capture.verify(model, tiny.VOCABULARY)
    site, kv_heads, width = sites[0], call.v.shape[1], call.v.shape[-1]
    bias, known = adapter.value_bias(site, kv_heads, width)
    if not known:
        assert family == "falcon with bias"
        return
    before = captured(model, ids).layers[site.layer].v

    def halve(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (args[0] / 2, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": kwargs["hidden_states"] / 2}

    with_hook = site.attention.register_forward_pre_hook(halve, with_kwargs=True)
    after = captured(model, ids).layers[site.layer].v
    with_hook.remove()
    if family == "deepseek_v3":  # a norm inside takes the half back
        assert bias is None
        return
    shift = torch.zeros(kv_heads, width) if bias is None else bias
    torch.testing.assert_close(
        after - shift[:, None], (before - shift[:, None]) / 2, rtol=0, atol=1e-5
    )


def test_the_page_of_families_is_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "families.md"
    assert page.read_text(encoding="utf-8") == families.markdown()


def test_encoder_decoders_of_something_else_than_texts_are_refused() -> None:
    config = SimpleNamespace(model_type="brand_new", is_encoder_decoder=True)
    with pytest.raises(InspectError, match="encoder-decoder"):
        loading._refuse_family(config)
    loading._refuse_family(transformers.AutoConfig.for_model("plbart"))  # the self-check decides
