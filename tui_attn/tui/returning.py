"""What the screen remembers of where it is, and how it goes back there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_attn.errors import InspectError
from tui_attn.maps import MAPS
from tui_attn.places import Place
from tui_attn.selection import Selection, Span, parse

if TYPE_CHECKING:
    from tui_attn.tui.screens.main import MainScreen


def place_of(screen: MainScreen) -> Place | None:
    """What is looked at now; None before there is a text."""
    request = screen.wanted
    if screen.session is None or request.model is None:
        return None
    state = screen.state
    query, key = screen.grid.cursor
    where = Selection(*(Span(str(number)) for number in (state.layer, state.head, query, key)))
    return Place(
        request=request.model,
        text=screen.session.run.text,
        pair=request.pair,
        max_tokens=request.max_tokens,
        keep=request.keep,
        decoder_text=request.decoder_text,
        stack=screen.session.model.stack,
        map="identity" if screen.identity.seen else state.map,
        where=str(where),
    )


def go_back(screen: MainScreen, place: Place) -> None:
    """Show the map and the head that were looked at, as far as they are there."""
    if screen.session is None:
        return
    model, grid = screen.session.model, screen.grid
    numbers = [name for name, spec in MAPS.items() if spec.scale != "table"]
    if place.map in numbers:
        screen.action_map(numbers.index(place.map) + 1)
    try:
        where = parse(place.where)
        layer = where.layers.resolve(model.layers, "layer")[0]
        head = where.heads.resolve(model.heads, "head")[0]
        query = where.queries.resolve(grid.length, "query")[0]
        key = where.keys.resolve(grid.width, "key")[0]
    except (InspectError, ValueError):
        return  # another revision of the model or its tokenizer: the map is shown from its start
    screen.go(layer, head)
    grid.move_to(query, key)
