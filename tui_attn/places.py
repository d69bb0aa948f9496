"""Where a person last was, so that `--resume` brings it back after a lost connection."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tui_attn.answers import STACKS, ModelRequest, Stack
from tui_attn.answers.memory import KEEPS, Keep
from tui_attn.config import state_folder
from tui_attn.errors import ExitCode, InspectError
from tui_attn.files import whole_file

_MOST_MODELS = 12


@dataclass(frozen=True)
class Place:
    """A model, a text, and what was looked at.

    Attributes:
        request: The model, without the permission to run its code, which is asked for anew.
        text: The text.
        pair: A second text.
        max_tokens: Where the text was cut.
        keep: Where the layers stay, as the command line or the person chose.
        decoder_text: What an encoder-decoder's decoder was given to read.
        stack: Which of its stacks was looked at.
        map: A name of `maps.MAPS`.
        where: What was under the cursor, as a selection: `L5H3 q=12 k=3`.
        models: Names of the models that were opened, the latest first.
    """

    request: ModelRequest
    text: str
    pair: str | None = None
    max_tokens: int | None = None
    keep: Keep | None = None
    map: str = "attention"
    where: str = ""
    decoder_text: str | None = None
    stack: Stack | None = None
    models: tuple[str, ...] = field(default=(), compare=False)


def save(place: Place) -> None:
    """Keep a place for `last`; of two programs the one that was used last is remembered.

    A folder that cannot be written is no reason to say anything: nobody asked for this.
    """
    request = replace(place.request, trust_remote_code=False, allow_pickle=False)
    if request.name and Path(request.name).exists():
        request = replace(request, name=str(Path(request.name).absolute()))
    names = [request.name or "", *recent_models()]
    known = {**asdict(place), "request": asdict(request)}
    known["models"] = list(dict.fromkeys(name for name in names if name))[:_MOST_MODELS]
    try:
        with whole_file(_file(), force=True) as stream:
            stream.write(json.dumps(known, indent=2).encode())
    except (InspectError, OSError):
        return


def last() -> Place:
    """The place that was saved last.

    Raises:
        InspectError: There is none, or it cannot be read (exit code 2).
    """
    place = _read()
    if place is None:
        raise InspectError("there is nothing to resume", "start without --resume", ExitCode.USAGE)
    return place


def recent_models() -> tuple[str, ...]:
    """Names of the models that were opened on this machine, the latest first."""
    place = _read()
    return () if place is None else place.models


def _file() -> Path:
    return state_folder() / "last.json"


def _read() -> Place | None:
    """What the file says, None where it says nothing that can be used."""
    try:
        known = json.loads(_file().read_text(encoding="utf-8"))
        request = ModelRequest(**known.pop("request"))
        place = Place(request, **known)
        texts = (place.text, place.map, place.where, *place.models)
        usable = all(isinstance(text, str) for text in texts)
        usable &= place.pair is None or isinstance(place.pair, str)
        usable &= place.max_tokens is None or isinstance(place.max_tokens, int)
        usable &= place.keep is None or place.keep in KEEPS
        usable &= place.decoder_text is None or isinstance(place.decoder_text, str)
        usable &= place.stack is None or place.stack in STACKS
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return replace(place, models=tuple(place.models)) if usable else None
