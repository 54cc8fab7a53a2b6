"""The store's server goes away in the middle of an apply: it stops in order, and the next one goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from schemas.problems.errors.store import StoreUnavailable
from tests.lab.postgres import Server
from tests.reconciler.lab import Lab, session, summary

BOUNDARIES = 8
"""Of the effects of two sessions, one of them replaced; before and after each."""


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
def lab(url: str, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    made.store.close()
    with Store.open(StoreAddress.parse(url, tmp_path), server_time=False) as store:
        made.store = store
        made.write({"a": session("a")})
        made.converge()
        made.write({"a": session("a", "env: {A: '1'}"), "b": session("b")})
        yield made


def at_boundary(lab: Lab, number: int, do: Callable[[], object]) -> Counter[str]:
    """`do` it once at the effect boundary of that number; counts them."""
    seen: Counter[str] = Counter()

    def at(operation: str, kernel: str, moment: str) -> None:
        if operation in ("create", "stop", "remove"):
            seen["boundaries"] += 1
            if seen["boundaries"] == number:
                do()

    lab.world.at = at
    return seen


@pytest.mark.parametrize("number", range(1, BOUNDARIES + 1))
def test_the_apply_stops_and_the_next_one_goes_on(lab: Lab, postgres: Server, number: int) -> None:
    seen = at_boundary(lab, number, postgres.stop)
    try:
        with pytest.raises(StoreUnavailable) as stopped:
            lab.apply()
        assert stopped.value.retryable and seen["boundaries"] >= number
    finally:
        postgres.start()
    at_boundary(lab, 0, lambda: None)
    assert not summary(lab.converge())
    assert lab.world.twins == [] and len(lab.world.kernels) == 2
    assert lab.store.open_intents("here") == ()
    audited = [each.verb for each in lab.store.audit("here", resource="Session/p/a")]
    assert audited[0] == "create" and "replace" in audited


def test_there_are_as_many_boundaries(lab: Lab) -> None:
    seen = at_boundary(lab, 0, lambda: None)
    lab.converge()
    assert seen["boundaries"] == BOUNDARIES


@pytest.mark.parametrize("number", [1, 4])
def test_a_broken_connection_alone_stops_nothing(lab: Lab, postgres: Server, url: str, number: int) -> None:
    at_boundary(lab, number, lambda: postgres.kill_connections(url, spare_commits=True))
    assert not summary(lab.converge())
    assert len(lab.world.kernels) == 2
