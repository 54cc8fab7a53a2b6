"""A lab that all tests of a process share, as the body of a fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol, TypeVar

import pytest

from tests.lab.cache import LabUnavailable


class Closes(Protocol):
    def close(self) -> None: ...


L = TypeVar("L", bound=Closes)


def lent(name: str, make: Callable[[], L], lacks: str = "") -> Iterator[L]:
    """Gives it, and closes it at the end. What cannot be had here is a skip that says why: `lacks`, or what
    `make` raises as LabUnavailable."""
    if lacks:
        pytest.skip(f"{name} lab: {lacks}")
    try:
        made = make()
    except LabUnavailable as error:
        pytest.skip(f"{name} lab: {error}")
    with closing(made):
        yield made
