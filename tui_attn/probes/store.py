"""Trained probes on the disk: safetensors with everything known about them in the header."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from tui_attn.answers.identity import METHODS, IdentityChoices, ProbeInfo, Rate, Transfer
from tui_attn.config import cache_folder
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model.placement import stored
from tui_attn.probes.gradient import Tensors, apply

if TYPE_CHECKING:
    from tui_attn.answers import ModelInfo

_HEADER = "attn_inspect_probe"
_SAMPLE = 32
"""Weights of each parameter that go into a model's fingerprint."""


@dataclass(frozen=True)
class Probe:
    """A trained map for every hidden state (the protocol `maps.identity.Recovery`)."""

    info: ProbeInfo
    weights: Tensors

    def __call__(self, trained_at: int, states: torch.Tensor) -> torch.Tensor:
        """Apply the map of one hidden state to states (n, d): (n, d) float32."""
        layer = {name: value[trained_at] for name, value in self.weights.items()}
        return apply(layer, states.float())

    def to(self, device: torch.device) -> Probe:
        """The same probe with its weights on a device."""
        return Probe(self.info, {name: value.to(device) for name, value in self.weights.items()})


@dataclass(frozen=True)
class ModelIdentity:
    """What a probe belongs to."""

    name: str
    revision: str | None
    dtype: str
    weights: str
    """A hash over a sample of every parameter."""


def identity_of(info: ModelInfo, model: torch.nn.Module) -> ModelIdentity:
    """The identity of a loaded model: its name may change, its weights and dtype may not."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        holder, _, own = name.rpartition(".")
        weight = stored(model.get_submodule(holder), own)
        if weight is not None:
            digest.update(weight.flatten()[:_SAMPLE].float().cpu().numpy().tobytes())
    return ModelIdentity(info.name, info.revision, info.dtype, digest.hexdigest()[:16])


def probes_folder() -> Path:
    """Where all probes are, below the XDG cache folder."""
    return cache_folder() / "probes"


def folder_of(identity: ModelIdentity) -> Path:
    """Where the probes of a model are."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", identity.name.rstrip("/").rpartition("/")[2])
    return probes_folder() / f"{name[:60]}-{identity.dtype}-{identity.weights}"


def place_of(identity: ModelIdentity, method: str, target: str) -> Path:
    """The file of one probe."""
    return folder_of(identity) / f"{target}-{method}.safetensors"


def save(identity: ModelIdentity, probe: Probe) -> Path:
    """Write a probe, whole or not at all."""
    path = Path(probe.info.path)
    header = {
        "identity": asdict(identity),
        "method": probe.info.method,
        "target": probe.info.target,
        "made": probe.info.made,
        "tokens": probe.info.tokens,
        "recipe": probe.info.recipe,
        "held_out": [_rate_to_json(rate) for rate in probe.info.held_out],
        "layers": list(probe.info.transfer.layers),
        "transfer_n": probe.info.transfer.n,
        "transfer": probe.info.transfer.rates.tolist(),
    }
    write_tensors(path, probe.weights, {_HEADER: json.dumps(header)})
    return path


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file that is never seen half-written.

    Raises:
        InspectError: It cannot be written (exit code 6).
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            plain = {name: value.contiguous() for name, value in tensors.items()}
            save_file(plain, temporary, metadata=metadata)
            temporary.replace(path)
    except (OSError, SafetensorError) as error:
        raise InspectError(
            f"cannot write {path}: {getattr(error, 'strerror', None) or error}",
            "make room there, or set XDG_CACHE_HOME to another folder",
            ExitCode.OUTPUT,
        ) from error


def find(name: str, target: str, identity: ModelIdentity) -> Probe:
    """The probe of this name, made for exactly this model.

    Args:
        name: A method, or the file of a probe.
        target: What it must recover.
        identity: The model.

    Raises:
        InspectError: There is none, or it was made for something else (exit code 2).
    """
    path = place_of(identity, name, target) if name in METHODS else Path(name).expanduser()
    if not path.is_file():
        raise _missing(name, target, identity)
    info, made_for = read_info(path)
    _must_belong(info, made_for, identity)
    if info.target != target:
        raise InspectError(
            f"{name} recovers the target {info.target}, not {target}",
            f"choose the target {info.target}",
            ExitCode.USAGE,
        )
    return Probe(info, load_file(path))


def saved() -> Iterator[tuple[ProbeInfo, ModelIdentity]]:
    """Every probe on this machine that can be read."""
    for path in sorted(probes_folder().glob("*/*.safetensors")):
        try:
            yield read_info(path)
        except InspectError:
            continue


def of_model(identity: ModelIdentity) -> list[ProbeInfo]:
    """The probes of one model, in the order of `METHODS`."""
    found = [info for info, made_for in saved() if _same(made_for, identity)]
    return sorted(found, key=lambda info: (info.target, METHODS.index(info.method)))


def read_info(path: Path) -> tuple[ProbeInfo, ModelIdentity]:
    """What a probe's header says; the weights are not read.

    Raises:
        InspectError: The file is no probe, or damaged (exit code 2).
    """
    try:
        with safe_open(path, "pt") as file:
            header = json.loads(file.metadata()[_HEADER])
            return _info(header, path), ModelIdentity(**header["identity"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InspectError(
            f"{path} is not a probe, or it is damaged",
            "make one with attn-inspect probe fit",
            ExitCode.USAGE,
        ) from error


def _info(header: dict[str, Any], path: Path) -> ProbeInfo:
    layers = tuple(header["layers"])
    return ProbeInfo(
        method=header["method"],
        target=header["target"],
        model=header["identity"]["name"],
        revision=header["identity"]["revision"],
        dtype=header["identity"]["dtype"],
        made=header["made"],
        tokens=header["tokens"],
        recipe=header["recipe"],
        path=str(path),
        held_out=tuple(_rate_from_json(rate) for rate in header["held_out"]),
        transfer=Transfer(
            layers, header["transfer_n"], np.array(header["transfer"]), data="held-out"
        ),
    )


def _rate_to_json(rate: Rate) -> dict[str, object]:
    return {**asdict(rate), "choices": asdict(rate.choices)}


def _rate_from_json(values: dict[str, Any]) -> Rate:
    return Rate(**{**values, "choices": IdentityChoices(**values["choices"])})


def _same(one: ModelIdentity, other: ModelIdentity) -> bool:
    return (one.dtype, one.weights) == (other.dtype, other.weights)


def _must_belong(info: ProbeInfo, made_for: ModelIdentity, identity: ModelIdentity) -> None:
    if _same(made_for, identity):
        return
    raise InspectError(
        f"the probe {info.method} was made for {_told(made_for)}, not for {_told(identity)}",
        _fit(identity, info.method, info.target),
        ExitCode.USAGE,
    )


def _missing(name: str, target: str, identity: ModelIdentity) -> InspectError:
    if name not in METHODS:
        return InspectError(
            f"there is no probe {name!r}",
            f"give one of {', '.join(METHODS)}, or the file of a probe",
            ExitCode.USAGE,
        )
    others = [
        made_for
        for info, made_for in saved()
        if (info.method, info.target, made_for.name) == (name, target, identity.name)
    ]
    made = f": the one there is was made for {_told(others[0])}" if others else ""
    return InspectError(
        f"there is no probe {name} with target {target} for {_told(identity)}{made}",
        _fit(identity, name, target),
        ExitCode.USAGE,
    )


def _fit(identity: ModelIdentity, method: str, target: str) -> str:
    option = "" if target == "embedding" else f" --target {target}"
    return f"make it with attn-inspect probe fit {identity.name} --method {method}{option}"


def _told(identity: ModelIdentity) -> str:
    revision = f" at revision {identity.revision}" if identity.revision else ""
    return f"{identity.name}{revision} in {identity.dtype} (weights {identity.weights})"
