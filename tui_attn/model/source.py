"""Where a model lies: the demo, a folder, a GGUF file, or a name on the Hugging Face hub.

Everything that can be told without torch is told here, so a wrong name is refused at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tui_attn import demo as demo_text
from tui_attn.answers import ModelRequest
from tui_attn.errors import ExitCode, InspectError
from tui_attn.model import demo

_PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True)
class Source:
    """A resolved model.

    Attributes:
        name: What to call it.
        location: What to hand to transformers: a folder or a hub name.
        local: Whether it lies on this machine, so that no socket is needed.
        gguf: The file inside `location`, for GGUF.
    """

    name: str
    location: str
    local: bool
    gguf: str | None = None


def resolve(request: ModelRequest) -> Source:
    """Find the model that was asked for.

    Raises:
        InspectError: There is none (exit code 3).
    """
    if request.name is None or request.name == demo_text.MODEL_NAME:
        return Source(demo_text.MODEL_NAME, str(demo.installed_folder()), local=True)
    if not request.name.strip():
        raise InspectError(
            "the model's name is empty", "give a hub name, a folder or a GGUF file", ExitCode.USAGE
        )
    path = Path(request.name).expanduser()
    if path.is_dir():
        return _folder(request, path)
    if path.is_file():
        return _file(request, path)
    if _looks_like_path(request.name):
        raise _no_model(f"there is no file or folder {request.name}", "check the path")
    return Source(request.name, request.name, local=False)


def models_on_this_machine() -> list[tuple[str, str, str]]:
    """Models that can be opened without a network: (name, where, kind)."""
    found: list[tuple[str, str, str]] = []
    demo_folder = demo.folder()
    if demo_folder is not None:
        found.append((demo_text.MODEL_NAME, str(demo_folder), "demo"))
    cache = _hub_cache()
    for folder in sorted(cache.glob("models--*")) if cache.is_dir() else []:
        if any(folder.glob("snapshots/*/config.json")):
            name = folder.name.removeprefix("models--").replace("--", "/")
            found.append((name, str(folder), "Hugging Face cache"))
    return found


def _hub_cache() -> Path:
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache).expanduser()
    home = os.environ.get("HF_HOME")
    if home is None:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def _folder(request: ModelRequest, path: Path) -> Source:
    if not (path / "config.json").is_file():
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            return _file(request, files[0])
        hint = "name one of its GGUF files" if files else "a model folder has a config.json"
        raise _no_model(f"the folder {request.name} holds no model", hint)
    if not any(path.glob("*.safetensors")) and not request.allow_pickle:
        if any(file for pattern in _PICKLE_PATTERNS for file in path.glob(pattern)):
            raise _no_model(
                f"the folder {request.name} has its weights only as pickle, which can run code",
                "convert them to safetensors, or add --allow-pickle if you trust them",
            )
        raise _no_model(
            f"the folder {request.name} has no weights", "a model folder has *.safetensors files"
        )
    return Source(str(request.name), str(path), local=True)


def _file(request: ModelRequest, path: Path) -> Source:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise _no_model(f"{request.name} is not a GGUF file", "give a model folder or a GGUF file")
    return Source(str(request.name), str(path.parent), local=True, gguf=path.name)


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or name.endswith(".gguf")


def _no_model(title: str, hint: str) -> InspectError:
    return InspectError(title, hint, ExitCode.NO_MODEL)
