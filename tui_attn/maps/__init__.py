"""The maps: one file per question, each with a declaration that costs nothing to import."""

from __future__ import annotations

from difflib import get_close_matches

from tui_attn.errors import ExitCode, InspectError
from tui_attn.maps import attention, attribution, effective, heads, identity
from tui_attn.maps.base import MapSpec

MAPS: dict[str, MapSpec] = {
    spec.name: spec
    for spec in (
        attention.MAP,
        effective.EFFECTIVE,
        effective.NULL,
        identity.MAP,
        attribution.MAP,
        heads.MAP,
    )
}
"""Every map by its name, in the order of the keys 1 … 9 on the screen."""


def get(name: str) -> MapSpec:
    """The map of this name.

    Raises:
        InspectError: There is none (exit code 2); names the nearest.
    """
    if name not in MAPS:
        near = get_close_matches(name, MAPS, n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"choose one of {', '.join(MAPS)}"
        raise InspectError(f"there is no map {name!r}", hint, ExitCode.USAGE)
    return MAPS[name]


__all__ = ["MAPS", "MapSpec", "get"]
