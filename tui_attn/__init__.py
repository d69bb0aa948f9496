"""attn-inspect: look inside transformer attention from a terminal, or from Python.

The public names load what they need when they are first used; importing the package costs nothing.

    from tui_attn import ModelRequest, open_session
    session = open_session(ModelRequest("gpt2"))
    session.analyse("The cat sat on the mat.")
    session.window("effective", 5, 3, rows=(0, 7), columns=(0, 7)).values
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_attn.answers import Inspector, ModelRequest
    from tui_attn.answers.attribution import AttributionChoices
    from tui_attn.answers.identity import IdentityChoices, choose
    from tui_attn.errors import ExitCode, InspectError
    from tui_attn.export import ExportRequest, export_file
    from tui_attn.maps import MAPS
    from tui_attn.selection import Selection, parse
    from tui_attn.session import open_session

_HOMES = {
    "AttributionChoices": "answers.attribution",
    "ExitCode": "errors",
    "ExportRequest": "export",
    "InspectError": "errors",
    "Inspector": "answers",
    "MAPS": "maps",
    "ModelRequest": "answers",
    "Selection": "selection",
    "IdentityChoices": "answers.identity",
    "choose": "answers.identity",
    "export_file": "export",
    "open_session": "session",
    "parse": "selection",
}

__all__ = [
    "MAPS",
    "AttributionChoices",
    "ExitCode",
    "ExportRequest",
    "IdentityChoices",
    "InspectError",
    "Inspector",
    "ModelRequest",
    "Selection",
    "choose",
    "export_file",
    "open_session",
    "parse",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("attn-inspect")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
