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
"""Families on which everything is tried."""

_ENCODER = {**_COMMON, "num_attention_heads": 4, "intermediate_size": 64}
_DECODER = {**_ENCODER, "num_key_value_heads": 2}
_NARROW = {**_DECODER, "head_dim": 12}
_GPT = {"vocab_size": VOCABULARY, "n_layer": 3, "n_embd": 48, "n_head": 4, "n_positions": 64}

_MODERN = {
    **_ENCODER,
    "local_attention": 8,
    "global_attn_every_n_layers": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}

OTHERS: dict[str, dict[str, Any]] = {
    "albert": {**_ENCODER, "embedding_size": 32, "max_position_embeddings": 64},
    "electra": {**_ENCODER, "embedding_size": 32, "max_position_embeddings": 64},
    "camembert": {**_ENCODER, "max_position_embeddings": 66},
    "xlm-roberta": {**_ENCODER, "max_position_embeddings": 66},
    "esm": {
        **_ENCODER,
        "max_position_embeddings": 66,
        "pad_token_id": 1,
        "mask_token_id": 3,
        "position_embedding_type": "rotary",
    },
    "modernbert": _MODERN,
    "modernbert with bias": {**_MODERN, "attention_bias": True},
    "mpnet": {**_ENCODER, "max_position_embeddings": 66},
    "deberta-v2": {
        **_ENCODER,
        "max_position_embeddings": 64,
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "deberta-v2 without buckets": {
        **_ENCODER,
        "max_position_embeddings": 64,
        "relative_attention": True,
        "pos_att_type": ["p2c"],
        "max_relative_positions": 16,
    },
    "gptj": {**_GPT, "rotary_dim": 4},
    "codegen": {**_GPT, "rotary_dim": 4},
    "gpt_bigcode": _GPT,
    "gpt_bigcode with many keys": {**_GPT, "multi_query": False},
    "gpt_neo": {
        "vocab_size": VOCABULARY,
        "num_layers": 3,
        "hidden_size": 48,
        "num_heads": 4,
        "intermediate_size": 64,
        "attention_types": [[["global", "local"], 1], [["global"], 1]],
        "window_size": 5,
        "max_position_embeddings": 64,
    },
    "bloom": {"vocab_size": VOCABULARY, "n_layer": 3, "hidden_size": 48, "n_head": 4},
    "mpt": {
        "vocab_size": VOCABULARY,
        "d_model": 48,
        "n_heads": 4,
        "n_layers": 3,
        "max_seq_len": 64,
        "expansion_ratio": 2,
    },
    "opt": {
        **_COMMON,
        "num_attention_heads": 4,
        "ffn_dim": 64,
        "max_position_embeddings": 64,
        "word_embed_proj_dim": 48,
    },
    "falcon": {**_ENCODER, "multi_query": True},
    "falcon with bias": {**_ENCODER, "multi_query": True, "bias": True},
    "falcon with alibi": {
        **_ENCODER,
        "alibi": True,
        "parallel_attn": False,
        "multi_query": False,
    },
    "falcon new decoder": {**_ENCODER, "new_decoder_architecture": True, "num_kv_heads": 2},
    "mixtral": {**_DECODER, "num_local_experts": 2, "num_experts_per_tok": 1},
    "gemma": _NARROW,
    "gemma2": {
        **_NARROW,
        "sliding_window": 5,
        "query_pre_attn_scalar": 12,
        "attn_logit_softcapping": 2.0,
    },
    "gemma3_text": {
        **_NARROW,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "phi": _ENCODER,
    "phi3": {**_DECODER, "original_max_position_embeddings": 64, "pad_token_id": 0},
    "olmo2": _DECODER,
    "granite": {**_DECODER, "attention_multiplier": 0.25},
    "starcoder2": {**_DECODER, "use_bias": True},
    "cohere2": {**_DECODER, "sliding_window": 5},
    "qwen3_moe": {
        **_NARROW,
        "num_experts": 2,
        "moe_intermediate_size": 32,
        "num_experts_per_tok": 1,
    },
    "gpt_oss": {
        **_NARROW,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "sliding_window": 5,
    },
    "deepseek_v3": {
        **_ENCODER,
        "num_key_value_heads": 4,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 10,
    },
    "qwen3_next": {
        **_NARROW,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
    },
    "jamba": {
        **_DECODER,
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "mamba_d_state": 4,
        "mamba_expand": 2,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "llama4_text": {
        **_NARROW,
        "attention_chunk_size": 8,
        "intermediate_size_mlp": 64,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
}
"""Families whose attention is compared with their own eager attention."""

_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 48,
    "d_kv": 12,
    "d_ff": 64,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
_BART = {
    "vocab_size": VOCABULARY,
    "d_model": 48,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "forced_eos_token_id": 2,
    "decoder_start_token_id": 2,
}

ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "t5": _T5,
    "mt5": {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "umt5": _T5,
    "bart": _BART,
    "mbart": _BART,
    "marian": {**_BART, "decoder_start_token_id": 0},
    "pegasus": {**_BART, "decoder_start_token_id": 0},
    "m2m_100": _BART,
    "blenderbot": _BART,
    "blenderbot-small": _BART,
}
"""Families of three stacks; layers and heads differ between encoder and decoder where they can."""


def config(family: str, **changes: Any) -> Any:
    settings = {**FAMILIES, **OTHERS, **ENCODER_DECODERS}[family]
    return transformers.AutoConfig.for_model(family.split()[0], **{**settings, **changes})


def model(family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    kind = (
        transformers.AutoModelForSeq2SeqLM if family in ENCODER_DECODERS else transformers.AutoModel
    )
    made = kind.from_config(config(family, **changes)).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            # Zero biases and sinks would hide mistakes.
            if name.endswith(("bias", "sinks")) or parameter.ndim > 1:
                parameter.normal_(std=0.3)
    return made.requires_grad_(False)


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, as GPT-2 spells bytes, with no special tokens around the text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def byte_fallback_tokenizer() -> PreTrainedTokenizerFast:
    """Letters, and bytes for what is none of them, as Llama's vocabulary has them."""
    names = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", *"abcdefgh日"]
    backend = Tokenizer(
        models.BPE({name: i for i, name in enumerate(names)}, [], byte_fallback=True)
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
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


def translating_tokenizer(words: str) -> PreTrainedTokenizerFast:
    """One token a word and </s> after the text, as T5 and Marian write it."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *dict.fromkeys(words.split())]
    backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )


WITH_WORDS = ("bert", "roberta", "distilbert")
"""Families that are saved with a tokenizer of whole words."""


def save(family: str, folder: Path, **changes: Any) -> Path:
    """A model folder as `save_pretrained` writes it."""
    model(family, **changes).save_pretrained(folder)
    if config(family).model_type in WITH_WORDS:
        word_tokenizer("the cat sat on mat and slept").save_pretrained(folder)
    elif family in ENCODER_DECODERS:
        translating_tokenizer("the cat sat on mat and slept").save_pretrained(folder)
    else:
        byte_level_tokenizer().save_pretrained(folder)
    return folder
