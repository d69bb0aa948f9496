"""Tiny random models of the families, made in code, and tokenizers that need no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

VOCABULARY = 320

_COMMON = {"vocab_size": VOCABULARY, "num_hidden_layers": 3, "hidden_size": 48}

FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {
        **_COMMON,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    },
    "roberta": {
        **_COMMON,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 66,
    },
    "distilbert": {
        "vocab_size": VOCABULARY,
        "n_layers": 3,
        "dim": 48,
        "n_heads": 4,
        "hidden_dim": 64,
    },
    "gpt2": {"vocab_size": VOCABULARY, "n_layer": 3, "n_embd": 48, "n_head": 4, "n_positions": 64},
    "gpt_neox": {**_COMMON, "num_attention_heads": 4, "intermediate_size": 64},
    "llama": {
        **_COMMON,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
    },
    "qwen2": {
        **_COMMON,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
    },
    "qwen3": {
        **_COMMON,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "head_dim": 20,
    },
    "mistral": {
        **_COMMON,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "sliding_window": 5,
    },
}


def config(family: str, **changes: Any) -> Any:
    return transformers.AutoConfig.for_model(family, **{**FAMILIES[family], **changes})


def model(family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    made = transformers.AutoModel.from_config(config(family, **changes)).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias") or parameter.ndim > 1:  # zero biases would hide mistakes
                parameter.normal_(std=0.3)
    return made.requires_grad_(False)


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, as GPT-2 spells bytes, with no special tokens around the text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def word_tokenizer(words: str) -> PreTrainedTokenizerFast:
    """One token a word, with [CLS] and [SEP] around the text and segments for a pair."""
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *dict.fromkeys(words.split())]
    backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def save(family: str, folder: Path, **changes: Any) -> Path:
    """A model folder as `save_pretrained` writes it."""
    model(family, **changes).save_pretrained(folder)
    if family in ("bert", "roberta", "distilbert"):
        word_tokenizer("the cat sat on mat and slept").save_pretrained(folder)
    else:
        byte_level_tokenizer().save_pretrained(folder)
    return folder
