"""A model spread over several devices, host memory and disk, as the package accelerate does it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from tui_attn.answers import DEVICE_MAPS, ModelRequest
from tui_attn.config import cache_folder
from tui_attn.errors import ExitCode, InspectError


def options(request: ModelRequest) -> dict[str, Any]:
    """What `from_pretrained` is told about places; nothing where one device holds the model.

    Raises:
        InspectError: accelerate is missing (exit code 3), or the options cannot be read (2).
    """
    if request.device_map is None:
        if request.max_memory is not None:
            raise InspectError(
                "limits of memory belong to a device map",
                "add --device-map auto, or leave out --max-memory",
                ExitCode.USAGE,
            )
        return {}
    if request.device_map not in DEVICE_MAPS:
        raise InspectError(
            f"there is no device map {request.device_map!r}",
            f"choose one of {', '.join(DEVICE_MAPS)}",
            ExitCode.USAGE,
        )
    if find_spec("accelerate") is None:
        raise InspectError(
            "a device map needs the package accelerate",
            "run: pip install 'attn-inspect[spread]'",
            ExitCode.NO_MODEL,
        )
    return {
        "device_map": request.device_map,
        "max_memory": None if request.max_memory is None else _limits(request.max_memory),
        "offload_folder": str(cache_folder() / "offload"),
    }


def _limits(text: str) -> dict[int | str, str]:
    """`0=20GiB,cpu=60GiB` as accelerate reads it."""
    limits: dict[int | str, str] = {}
    for part in text.split(","):
        place, _, size = (word.strip() for word in part.partition("="))
        known = place == "cpu" or place.isdecimal()
        if not known or not re.fullmatch(r"\d+(\.\d+)?\s*([KMGT]i?B)", size):
            raise InspectError(
                f"cannot read the limit of memory {part.strip()!r}",
                "write --max-memory 0=20GiB,cpu=60GiB",
                ExitCode.USAGE,
            )
        limits[int(place) if place.isdecimal() else place] = size.replace(" ", "")
    return limits


def places(model: Any) -> list[str]:  # noqa: ANN401
    """Where a model's weights are, in the order in which layers come: `cuda:0`, `cpu`, `disk`."""
    spread = getattr(model, "hf_device_map", None) or {"": model.device}
    names = (f"cuda:{place}" if isinstance(place, int) else str(place) for place in spread.values())
    return list(dict.fromkeys(names))


def computing(model: Any) -> list[torch.device]:  # noqa: ANN401
    """The devices that compute: weights on the host or on disk are brought to one of them."""
    found = [torch.device(place) for place in places(model) if place not in ("disk", "meta")]
    gpus = [device for device in found if device.type != "cpu"]
    return gpus or [torch.device("cpu")]


def stored(module: nn.Module, name: str) -> torch.Tensor | None:
    """A weight of a module, wherever it is; None where there is none."""
    tensor = getattr(module, name, None)
    if not isinstance(tensor, torch.Tensor):
        return None
    hook = getattr(module, "_hf_hook", None)
    if tensor.is_meta and hook is not None:
        found: torch.Tensor = hook.weights_map[name]
        return found
    return tensor.detach()
