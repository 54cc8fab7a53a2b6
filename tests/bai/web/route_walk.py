"""Every route of an app, with addresses that lead somewhere: routes that are added later are walked without a
word about them here, and one whose parameters nobody knows how to fill is a failure.

A parameter is filled by its name, `VALUES`, or by its type (`bool`, `Literal`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
_PLACE = re.compile(r"\{(\w+)(:\w+)?\}")
Values = Mapping[str, Sequence[str]]


class UnknownParameter(AssertionError):
    """A route takes what nobody has said how to fill."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of a query. `choices`: what it may be, as far as that is known."""

    name: str
    required: bool
    choices: tuple[str, ...]


def routes_of(app: FastAPI, method: str) -> Iterator[Route]:
    """All that answer to a method."""
    for each in app.routes:
        known = isinstance(each, Route | WebSocketRoute)
        assert known, f"{each} is mounted: say here how its routes are walked"
        if isinstance(each, Route) and method in (each.methods or ()):
            yield each


def sockets_of(app: FastAPI) -> Iterator[BaseRoute]:
    return (each for each in app.routes if isinstance(each, WebSocketRoute | APIWebSocketRoute))


def addresses(route: Route | WebSocketRoute, values: Values, *, vary: bool = True) -> Iterator[str]:
    """Each that the values make of a route's path and of what its query must have; with `vary`, also with
    each thing more that its query may have. Raises UnknownParameter."""
    names = [name for name, _ in _PLACE.findall(route.path)]
    asked = list(_parameters(route, values))
    for filled in itertools.product(*(_known(route, name, values) for name in names)):
        given = dict(zip(names, filled, strict=True))
        path = _filled(route, given)
        needed = {each.name: each.choices[0] for each in asked if each.required}
        yield _address(path, needed)
        for each in asked if vary else ():
            for choice in each.choices:
                if needed.get(each.name) != choice:
                    yield _address(path, {**needed, each.name: choice})


def hostile_addresses(route: Route, values: Values, word: str) -> Iterator[str]:
    """One for each place of a route's path and query, with this word in it and what leads somewhere in all
    others."""
    names = [name for name, _ in _PLACE.findall(route.path)]
    asked = list(_parameters(route, values))
    given = {name: _known(route, name, values)[0] for name in names}
    needed = {each.name: each.choices[0] for each in asked if each.required}
    for name in names:
        yield _address(_filled(route, {**given, name: word}), needed)
    for each in asked:
        yield _address(_filled(route, given), {**needed, each.name: word})


def _filled(route: Route | WebSocketRoute, given: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: quote(given[place[1]], safe="/"), route.path)


def _address(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _known(route: Route | WebSocketRoute, name: str, values: Values) -> Sequence[str]:
    if name not in values:
        raise UnknownParameter(f"{route.path} takes {name!r}: say in the values of this walk what it may be")
    return values[name]


def _parameters(route: Route | WebSocketRoute, values: Values) -> Iterator[Parameter]:
    if not isinstance(route, APIRoute | APIWebSocketRoute):
        return
    waiting, found = [route.dependant], dict[str, tuple[bool, Any]]()
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        for each in dependant.query_params:
            kind = each.field_info.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= {
                    inner.alias or name: (inner.is_required(), inner.annotation)
                    for name, inner in kind.model_fields.items()
                }
            else:
                found[each.alias] = (each.field_info.is_required(), kind)
    for name, (required, annotation) in found.items():
        choices = values[name] if name in values else tuple(_choices(annotation))
        if required and not choices:
            raise UnknownParameter(f"{route.path} needs {name!r} in its query: say what it may be")
        yield Parameter(name, required, tuple(choices))


def _choices(annotation: Any) -> Iterator[str]:
    """What somebody may write for a type of few values."""
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for each in get_args(annotation):
            yield from _choices(each)


def answers_to(app: FastAPI, address: str) -> str:
    """The path of the route that answers to an address: another one may stand before the one it was made
    for."""
    scope = {"type": "http", "method": "GET", "path": address.partition("?")[0], "headers": []}
    for each in app.routes:
        if each.matches(scope)[0] is Match.FULL:
            return str(getattr(each, "path", ""))
    return ""
