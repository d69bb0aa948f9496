"""`maps`, `models` and `doctor`: what there is."""

from __future__ import annotations

import locale
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from tui_attn import maps as map_registry
from tui_attn.commands.streams import say
from tui_attn.config import state_folder
from tui_attn.errors import ExitCode, InspectError
from tui_attn.render.cells import visible

_PACKAGES = ("attn-inspect", "torch", "transformers", "tokenizers", "textual", "rich", "numpy")
_VARIABLES = (
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMUX",
    "SSH_CONNECTION",
    "LANG",
    "HF_HOME",
    "HF_HUB_OFFLINE",
)


def maps() -> int:
    """List the maps."""
    for spec in map_registry.MAPS.values():
        sys.stdout.write(
            f"{spec.name}: {spec.title} ({spec.axes})\n"
            f"  {spec.meaning}\n"
            f"  formula  {spec.formula}\n"
            f"  source   {spec.source}\n"
            + ("  variants output, no-bias, sum-one\n" if spec.has_variants else "")
        )
    return ExitCode.DONE


def models() -> int:
    """List the models that can be opened without a network."""
    from tui_attn.model.source import models_on_this_machine

    found = models_on_this_machine()
    for name, where, kind in found:
        sys.stdout.write(f"{visible(name)}\t{kind}\t{visible(where)}\n")
    if not found:
        say(
            "no models found; "
            "install the demo with pip install 'attn-inspect[demo]', or give a folder."
        )
    return ExitCode.DONE


def doctor(device: str) -> int:
    """Print what a bug report needs; a missing part is a line, never a failure."""
    for name, value in _findings(device):
        sys.stdout.write(f"{name:<16}{visible(value)}\n")
    return ExitCode.DONE


def families() -> int:
    """List the model families, how far they are supported, and what to know about them."""
    from tui_attn.model.families import FAMILIES, UNLISTED

    width = max(len(family.name) for family in FAMILIES)
    for family in FAMILIES:
        line = f"{family.name:<{width}}  {family.support:<8} {family.note}"
        sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.write(f"{UNLISTED}\n")
    return ExitCode.DONE


def _findings(device: str) -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "processor", f"{os.cpu_count()} cores, {_memory()}"
    yield from _devices(device)
    yield "demo model", _attempt(_demo)
    yield "colours", os.environ.get("TEXTUAL_COLOR_SYSTEM", "auto")
    for name in _VARIABLES:
        value = os.environ.get(name)
        if value is not None:
            yield name, "set" if name in ("SSH_CONNECTION", "TMUX") else value
    yield "encoding", f"{sys.stdout.encoding}, locale {locale.setlocale(locale.LC_CTYPE)}"
    yield "log folder", _attempt(lambda: str(state_folder()))


def _devices(wanted: str) -> Iterator[tuple[str, str]]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield "devices", f"torch cannot be imported: {error}"
        return
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        yield f"cuda:{number}", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    if torch.backends.mps.is_available():
        yield "mps", "available"
    yield "cpu", f"{torch.get_num_threads()} threads"
    if wanted != "auto":
        from tui_attn.model.loading import choose_device

        yield "chosen device", _attempt(lambda: str(choose_device(wanted)))


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "memory unknown"
    return f"{size / 2**30:.0f} GiB memory"


def _demo() -> str:
    from tui_attn.model import demo

    folder = demo.folder()
    if folder is None:
        return "not installed (pip install 'attn-inspect[demo]')"
    state = "checksum ok" if demo.checksum_holds(folder) else "CHECKSUM WRONG"
    return f"{folder} ({state})"


def _attempt(action: Callable[[], str]) -> str:
    try:
        return action()
    except (OSError, InspectError) as error:
        return f"{error}"
