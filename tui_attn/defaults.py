"""What the command line need not say again: the person's file and the environment.

The environment wins over the file, and the command line over both. What runs a model's own code
can be asked for on the command line only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from tui_attn.errors import ExitCode, InspectError

SETTABLE = (
    "device",
    "device-map",
    "max-memory",
    "dtype",
    "offline",
    "max-tokens",
    "keep",
    "variant",
    "tolerance",
    "color",
    "color-map",
    "ascii",
    "no-mouse",
)
"""Options of the command line, without their dashes."""
_FLAGS = ("offline", "ascii", "no-mouse")
_PREFIX = "ATTN_INSPECT_"
_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def config_file() -> Path:
    """Where the person's settings are (XDG config folder), whether there are any or not."""
    from platformdirs import user_config_path

    return user_config_path("attn-inspect") / "config.toml"


def given() -> Iterator[tuple[str, str, str | bool]]:
    """Where something is set, the option's name, and its value; the later ones win.

    Raises:
        InspectError: The file cannot be read, or a name or value is none (exit code 2).
    """
    path = config_file()
    for name, value in _read(path).items():
        if name == "color" and os.environ.get("NO_COLOR"):
            continue  # the environment wins
        yield from _setting(str(path), name, value)
    for variable in sorted(os.environ):
        name = variable.removeprefix(_PREFIX).lower().replace("_", "-")
        if variable.startswith(_PREFIX):
            text = os.environ[variable]
            yield from _setting(variable, name, _switch(text) if name in _FLAGS else text)


def _read(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InspectError(
            f"{path} cannot be read: {error.strerror}", "mend or remove it", ExitCode.USAGE
        ) from error
    except ValueError as error:  # neither TOML nor UTF-8
        raise InspectError(f"{path} is no TOML: {error}", "mend it", ExitCode.USAGE) from error


def _setting(source: str, name: str, value: object) -> Iterator[tuple[str, str, str | bool]]:
    if name not in SETTABLE:
        near = get_close_matches(name, SETTABLE, n=1)
        hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(SETTABLE)}"
        raise InspectError(f"{source} sets {name!r}, which is no setting", hint, ExitCode.USAGE)
    if (name in _FLAGS) != isinstance(value, bool) or isinstance(value, list | dict):
        kind = "true or false" if name in _FLAGS else "a word or a number"
        raise InspectError(f"{source}: {name} is not {kind}", "mend it there", ExitCode.USAGE)
    if value is not False:
        yield source, name, value if isinstance(value, bool) else str(value)


def _switch(text: str) -> bool | str:
    """A flag as environments write it; other words stay, and are refused as such."""
    word = text.strip().lower()
    return word in _ON if word in _ON + _OFF else text
