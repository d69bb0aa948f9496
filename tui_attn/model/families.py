"""Which model families are supported, and how far: what `doctor --families` and the docs list.

A family that is not listed is accepted when it passes the self-check of `capture.verify`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Support = Literal["full", "refused"]


@dataclass(frozen=True)
class Family:
    """A row of the table.

    Attributes:
        name: What people call it.
        types: transformers' `model_type` of its members.
        support: `full`: attention, effective attention, token identity and attribution; of
            encoder-decoders as far as the note says.
        note: What to know about it; of a refused family the reason, as the end of a sentence that
            begins with the name.
    """

    name: str
    types: tuple[str, ...]
    support: Support = "full"
    note: str = ""


NOT_TEXT_TO_TEXT = "is an encoder-decoder of something else than texts"
HINT = "`attn-inspect doctor --families` lists what is"
_HOOKS = "read by hooks on its own eager attention"
_STACKS = (
    "three stacks: encoder, decoder, cross; token identity of encoder and decoder, "
    "attribution of the encoder"
)

FAMILIES: tuple[Family, ...] = (
    # Encoders
    Family("BERT", ("bert",)),
    Family("RoBERTa", ("roberta", "camembert")),
    Family("XLM-R", ("xlm-roberta",)),
    Family("DistilBERT", ("distilbert",)),
    Family("ALBERT", ("albert",), note="one block that runs once a layer"),
    Family("ELECTRA", ("electra",)),
    Family("ESM", ("esm",)),
    Family("ModernBERT", ("modernbert",), note="two-sided windows"),
    Family("MPNet", ("mpnet",), note=f"position bias; {_HOOKS}"),
    Family("DeBERTa-v2, v3", ("deberta-v2",), note=f"disentangled attention; {_HOOKS}"),
    # Decoders
    Family("GPT-2", ("gpt2",)),
    Family("GPT-BigCode", ("gpt_bigcode",), note="one key and value head for all queries"),
    Family("GPT-Neo", ("gpt_neo",), note=f"windows; {_HOOKS}"),
    Family("GPT-J, CodeGen", ("gptj", "codegen")),
    Family("GPT-NeoX, Pythia", ("gpt_neox",)),
    Family("OPT", ("opt",)),
    Family("BLOOM", ("bloom",), note=f"ALiBi; {_HOOKS}"),
    Family("Falcon", ("falcon",), note="rotary, or ALiBi in its mask"),
    Family("MPT", ("mpt",), note=f"ALiBi; {_HOOKS}"),
    Family("Llama", ("llama",)),
    Family("Llama 4", ("llama4_text",), note="text part; chunks"),
    Family("Mistral", ("mistral",), note="windows"),
    Family("Mixtral", ("mixtral",), note="experts"),
    Family("Qwen2", ("qwen2",)),
    Family("Qwen3", ("qwen3", "qwen3_moe")),
    Family("Gemma", ("gemma",)),
    Family("Gemma 2", ("gemma2",), note="windows, soft cap"),
    Family("Gemma 3", ("gemma3_text",), note="text part; windows"),
    Family("Phi", ("phi",)),
    Family("Phi-3", ("phi3",), note="fused queries, keys and values"),
    Family("OLMo-2", ("olmo2",)),
    Family("Granite, StarCoder2, Cohere2", ("granite", "starcoder2", "cohere2")),
    Family(
        "gpt-oss",
        ("gpt_oss",),
        note="windows, experts; sinks: rows sum to less than one, ∅ is what is missing",
    ),
    Family("DeepSeek-V3", ("deepseek_v3",), note="latent attention, experts"),
    # Hybrids
    Family("Qwen3-Next", ("qwen3_next",), note="only some layers have attention; experts"),
    Family("Jamba", ("jamba",), note="only some layers have attention; experts"),
    # Encoder-decoders
    Family("T5, mT5, umT5", ("t5", "mt5", "umt5"), note=f"position bias; {_STACKS}"),
    Family("BART", ("bart",), note=_STACKS),
    Family("mBART", ("mbart",), note=_STACKS),
    Family("Marian", ("marian",), note=_STACKS),
    Family("Pegasus", ("pegasus",), note=_STACKS),
    Family("M2M-100, NLLB", ("m2m_100",), note=_STACKS),
    Family("Blenderbot", ("blenderbot", "blenderbot-small"), note=_STACKS),
    # Refused
    Family("Mamba", ("mamba", "mamba2", "falcon_mamba"), "refused", "has no attention"),
    Family("RWKV", ("rwkv",), "refused", "has no attention"),
    Family(
        "DeBERTa (first version)",
        ("deberta",),
        "refused",
        "computes its attention outside transformers' interface",
    ),
    Family("XLNet", ("xlnet",), "refused", "attends over two streams at once"),
    Family(
        "Longformer, BigBird",
        ("longformer", "big_bird"),
        "refused",
        "attends to keys that are not one range for each query",
    ),
    Family("Reformer", ("reformer",), "refused", "chooses its keys by hashing"),
    Family(
        "ConvBERT, Funnel",
        ("convbert", "funnel"),
        "refused",
        "mixes attention with convolution or pooling",
    ),
    Family(
        "LED, LongT5, BigBird-Pegasus",
        ("led", "longt5", "bigbird_pegasus"),
        "refused",
        "attends to keys that are not one range for each query",
    ),
    Family("ProphetNet", ("prophetnet",), "refused", "attends over several streams at once"),
    Family(
        "ViT and other vision models",
        ("vit", "deit", "beit", "dinov2", "swin", "clip", "siglip"),
        "refused",
        "reads images, and only texts can be given",
    ),
)
"""In the order of the table."""


UNLISTED = "a family that is not listed is accepted when it passes the self-check at loading"


def of_type(model_type: str) -> Family | None:
    """The row of a `model_type`; None where it is not listed."""
    return next((family for family in FAMILIES if model_type in family.types), None)


def markdown() -> str:
    """docs/families.md."""
    lines = [
        "# Model families",
        "",
        "`attn-inspect doctor --families` prints this table. *Full* means raw, effective and null",
        "attention, statistics of heads, token identity and hidden token attribution. Every row is",
        "tested on a tiny random model against the family's own eager attention, to 1e-5. A family",
        "that is not listed is accepted when it passes the same self-check at loading, and refused",
        "in a sentence when it does not.",
        "",
        "| family | `model_type` | support | to know |",
        "| --- | --- | --- | --- |",
    ]
    for family in FAMILIES:
        types = ", ".join(f"`{name}`" for name in family.types)
        lines.append(f"| {family.name} | {types} | {family.support} | {family.note} |")
    return "\n".join(lines) + "\n"
