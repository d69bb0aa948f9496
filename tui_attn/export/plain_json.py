"""JSON that can be printed: readable text stays, whatever a terminal obeys or hides is escaped."""

from __future__ import annotations

import json
import math


def dumps(value: object, *, indent: int | None = None) -> str:
    r"""JSON text; strings read back as they were, NaN is null, infinities are `"inf"`, `"-inf"`.

    The text that was analysed is part of the metadata as it is, so a control, bidirectional or
    zero-width character in it becomes `\u…` here instead of reaching a terminal.
    """
    try:
        text = _dumps(value, indent)
    except ValueError:  # JSON has no word for them
        text = _dumps(_spelled(value), indent)
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or (character == "\n" and indent is not None)
        else json.dumps(character)[1:-1]
        for character in text
    )


def _dumps(value: object, indent: int | None) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str, indent=indent)


def _spelled(value: object) -> object:
    if isinstance(value, dict):
        return {name: _spelled(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
