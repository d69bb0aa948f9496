"""A model request -> a model on a device, or one clear sentence why not."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)

from tui_attn import demo as demo_text
from tui_attn.answers import ModelInfo, ModelRequest, Stack
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.model import adapter, capture, demo, families, placement, writing
from tui_attn.model.adapter import Site
from tui_attn.model.capture import Call
from tui_attn.model.memory import Footprint
from tui_attn.model.source import Source, resolve
from tui_attn.progress import Job

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class LoadedModel:
    """A model that passed its self-check, with its tokenizer and its attention layers.

    Of an encoder-decoder each stack is one of these; the model itself is the same.
    """

    model: Any
    tokenizer: Any
    info: ModelInfo
    sites: list[Site]
    deficient_heads: dict[int, tuple[int, ...]]
    """Heads per layer whose output projection has not full rank."""
    footprint: Footprint
    running: threading.RLock = field(default_factory=threading.RLock, compare=False)
    """Held by whoever runs the model: the hooks of one run must not see another."""
    stacks: dict[Stack, LoadedModel] = field(default_factory=dict, compare=False, repr=False)
    """All stacks of an encoder-decoder, this one among them; of other models none."""
    can_write: bool = False
    """Whether an encoder-decoder has what it takes to write a text itself."""

    @property
    def all_sites(self) -> list[Site]:
        """The attention layers of all stacks."""
        return [site for stack in self.stacks.values() for site in stack.sites] or self.sites

    @property
    def whole(self) -> bool:
        """Whether one device holds all weights."""
        return len(placement.places(self.model)) == 1

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of the hidden states: `emb`, then the numbers of the blocks."""
        return ("emb", *(str(layer) for layer in range(self.info.layers)))


def load(request: ModelRequest, job: Job) -> LoadedModel:
    """Open a model.

    Raises:
        InspectError: Device (exit code 2), model or tokenizer (3), family (4), memory (5).
        Cancelled: The job was cancelled.
    """
    device, spread = choose_device(request.device), placement.options(request)
    source = resolve(request)
    if source.name == demo_text.MODEL_NAME:
        demo.verify(Path(source.location))
    job.report("reading the configuration")
    if not source.local and not request.offline and not _is_cached(request, source):
        job.report("asking the hub")
        _read(lambda: _ask_hub(request, source), request, source)
    options = _options(request, source)
    config = _read(lambda: AutoConfig.from_pretrained(source.location, **options), request, source)
    _refuse_family(config)
    job.report("reading the tokenizer")
    tokenizer = _read(
        lambda: AutoTokenizer.from_pretrained(source.location, **options),
        request,
        source,
        "tokenizer",
    )
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        # transformers makes an empty tokenizer where the files are missing: all text is [UNK].
        raise InspectError(
            f"the tokenizer of {source.name} is missing",
            "put its tokenizer.json beside the weights",
            ExitCode.NO_MODEL,
        )
    job.report("reading the weights")
    kind = AutoModelForSeq2SeqLM if _is_encoder_decoder(config) else AutoModel
    model, told = _read(
        lambda: kind.from_pretrained(
            source.location,
            dtype=_dtype(request.dtype, device, config),
            use_safetensors=None if source.gguf or request.allow_pickle else True,
            output_loading_info=True,
            **spread,
            **options,
        ),
        request,
        source,
    )
    model = model.eval().requires_grad_(False)
    if not spread:
        model = _place(model, device)
    job.report("checking the capture against eager attention")
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    verified = capture.verify_stacks(model, vocabulary)
    layers = sum(len(sites) for sites, _ in verified.values())
    first = next(iter(verified.values()))[1]
    # Of an encoder-decoder's layers half look with, or at, any one token.
    footprint = Footprint.of(model, layers if len(verified) == 1 else -(-layers // 2), first)
    writes = "lm_head.weight" not in told["missing_keys"] and writing.start_id(model) is not None
    running = threading.RLock()
    stacks: dict[Stack, LoadedModel] = {}
    for stack, (sites, call) in verified.items():
        info = _describe(request, source, model, sites, call, stack)
        deficient = {
            site.layer: adapter.deficient_heads(model, site, info.heads, info.head_width)
            for site in sites
        }
        loaded = LoadedModel(
            model, tokenizer, info, sites, deficient, footprint, running, stacks, writes
        )
        if stack is None:
            return loaded
        stacks[stack] = loaded
    return stacks["encoder"]


def _is_encoder_decoder(config: Any) -> bool:  # noqa: ANN401
    return bool(getattr(config, "is_encoder_decoder", False))


def _options(request: ModelRequest, source: Source) -> dict[str, Any]:
    # Nobody waits at a dead network: a short time-out, and none of the hub's own conversions.
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "5")
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    options: dict[str, Any] = {
        "local_files_only": source.local or request.offline or _is_cached(request, source),
        "trust_remote_code": request.trust_remote_code,
    }
    if request.revision is not None and not source.local:
        options["revision"] = request.revision
    if source.gguf is not None:
        options["gguf_file"] = source.gguf
    return options


def _ask_hub(request: ModelRequest, source: Source) -> None:
    """Fail at once, without the hub library's own patience, where the hub does not answer."""
    from huggingface_hub import HfApi

    HfApi().model_info(source.location, revision=request.revision, timeout=8)


def _is_cached(request: ModelRequest, source: Source) -> bool:
    """Whether the hub's cache already has this model, so that no socket is needed."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        files = (
            try_to_load_from_cache(source.location, name, revision=request.revision)
            for name in ("model.safetensors", "model.safetensors.index.json")
        )
        return any(isinstance(file, str) for file in files)
    except HFValidationError:
        return False


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes a GPU where there is one.

    Raises:
        InspectError: There is none (exit code 2).
    """
    hint = "choose auto, cpu, cuda, cuda:N or mps; `attn-inspect doctor` lists what is here"
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InspectError(f"there is no device {name!r}", hint, ExitCode.USAGE) from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, False):
        raise InspectError(f"there is no device {name!r} on this machine", hint, ExitCode.USAGE)
    return device


def _dtype(name: str, device: torch.device, config: Any) -> torch.dtype:  # noqa: ANN401
    """`auto`: the checkpoint's own on a GPU; float32 on a CPU, where half precision is slow."""
    if name != "auto":
        return _DTYPES[name]
    own = getattr(config, "dtype", None)
    return own if device.type == "cuda" and isinstance(own, torch.dtype) else torch.float32


def _place(model: Any, device: torch.device) -> Any:  # noqa: ANN401
    try:
        return model.to(device)
    except torch.OutOfMemoryError as error:
        raise InspectError(
            f"the model does not fit on {device}",
            "use --dtype bfloat16, --device-map auto or --device cpu",
            ExitCode.INPUT,
        ) from error


def _refuse_family(config: Any) -> None:  # noqa: ANN401
    family = families.of_type(config.model_type)
    if family is not None and family.support == "refused":
        reason = family.note
    elif _is_encoder_decoder(config) and type(config) not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        reason = families.NOT_TEXT_TO_TEXT
    else:
        return
    raise InspectError(
        f"the model family {config.model_type!r} is not supported: it {reason}",
        families.HINT,
        ExitCode.UNSUPPORTED,
    )


def _read(
    action: Any,  # noqa: ANN401 - a call into transformers
    request: ModelRequest,
    source: Source,
    what: str = "model",
) -> Any:  # noqa: ANN401
    """Do one step of loading; every way in which it can fail becomes one sentence."""
    try:
        return action()
    except Cancelled:
        raise
    except torch.OutOfMemoryError as error:
        raise InspectError(
            f"there is not enough memory for {source.name}",
            "use --dtype bfloat16 or a smaller model",
            ExitCode.INPUT,
        ) from error
    except Exception as error:  # transformers and its parsers raise nearly every class there is
        title, hint = _explain(error, request, source, what)
        raise InspectError(title, hint, ExitCode.NO_MODEL) from error


def _explain(error: Exception, request: ModelRequest, source: Source, what: str) -> tuple[str, str]:
    """What went wrong and what to do, for a failure inside transformers or the hub."""
    text = " ".join(f"{link} {type(link).__name__}" for link in _chain(error))
    names = {type(link).__name__ for link in _chain(error)}
    name = source.name
    if "trust_remote_code" in text:
        return (
            f"{name} needs Python code of its own, which is not run unasked",
            "add --trust-remote-code if you trust it",
        )
    if "GatedRepoError" in names or "gated repo" in text:
        return (
            f"{name} is gated",
            "accept its conditions on its page, then set HF_TOKEN or run `hf auth login`",
        )
    if "RevisionNotFoundError" in names or "is not a valid git identifier" in text:
        return f"{name} has no revision {request.revision!r}", "check --revision"
    if isinstance(error, ImportError):
        extra = "'attn-inspect[gguf]'" if source.gguf else "the package it names"
        return f"{name} needs a package that is missing", f"run: pip install {extra}"
    if source.local:
        if what == "tokenizer":
            return (
                f"the tokenizer of {name} is missing or damaged",
                "put tokenizer.json and tokenizer_config.json into the folder",
            )
        if isinstance(error, KeyError | ValueError) and "model type" in text:
            return f"the configuration of {name} names no known model type", "check its config.json"
        return f"the files of {name} are damaged or incomplete", "copy or download them again"
    if "HFValidationError" in names:
        return f"{name!r} is neither a folder nor a model name", "check the spelling"
    if "RepositoryNotFoundError" in names or "is not a valid model identifier" in text:
        return (
            f"there is no model {name} on the hub, or it is private",
            "check the spelling, or set HF_TOKEN",
        )
    if "no file named" in text and "safetensors" in text:
        return (
            f"{name} has no safetensors weights, and pickle can run code",
            "add --allow-pickle if you trust it",
        )
    if request.offline or os.environ.get("HF_HUB_OFFLINE"):
        return f"{name} is not on this machine", "leave out --offline, or give a local folder"
    return (
        f"{name} is not on this machine and the hub does not answer",
        "check the network, or give a local folder; `attn-inspect models` lists what is here",
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links


def _describe(
    request: ModelRequest,
    source: Source,
    model: Any,  # noqa: ANN401
    sites: list[Site],
    call: Call,
    stack: Stack | None,
) -> ModelInfo:
    config = model.config.get_text_config()
    layers = adapter.number_of_layers(sites)
    return ModelInfo(
        name=source.name,
        family=model.config.model_type,
        layers=layers,
        heads=call.q.shape[1],
        kv_heads=call.k.shape[1],
        head_width=call.v.shape[-1],
        width=config.hidden_size,
        device=" ".join(placement.places(model)),
        dtype=str(model.dtype).removeprefix("torch."),
        kernel=capture.kernel(model, call),
        causal=call.visibility.is_causal and stack != "cross",
        max_tokens=_max_tokens(config),
        revision=getattr(model.config, "_commit_hash", None) or request.revision,
        quantised="gguf" if source.gguf else _quantisation(model.config),
        device_map=request.device_map,
        max_memory=request.max_memory,
        without_attention=tuple(sorted(set(range(layers)) - {site.layer for site in sites})),
        stack=stack,
    )


def _max_tokens(config: Any) -> int | None:  # noqa: ANN401
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    # RoBERTa and its kin count positions from the padding id on.
    shifted = config.model_type in {"roberta", "xlm-roberta", "camembert", "longformer", "mpnet"}
    return limit - config.pad_token_id - 1 if shifted else limit


def _quantisation(config: Any) -> str | None:  # noqa: ANN401
    quantisation = getattr(config, "quantization_config", None)
    method = getattr(quantisation, "quant_method", None)
    return None if method is None else str(getattr(method, "value", method))
