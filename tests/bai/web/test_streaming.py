"""Streams whose clients or whose server are gone in the wrong moment."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bai.web.streaming import Followers, TooManyFollowers
from providers.abilities import LogStream
from tests.bai.web.lab import PATIENCE, Lab, bearer, serving
from tests.waiting import until

HERE = "/clusters/here"


def output() -> Iterator[bytes]:
    yield b"a line\n"


def test_a_follower_whose_answer_never_began_gives_its_place_back() -> None:
    """As where the node said nothing for so long that the request was answered with 504."""
    followers = Followers(most_each=1)
    followers.follow("ada", output())
    gc.collect()
    pieces = followers.follow("ada", output())
    with pytest.raises(TooManyFollowers):
        followers.follow("ada", output())

    async def read() -> list[bytes]:
        return [piece async for piece in pieces]

    assert asyncio.run(read()) == [b"a line\n"]
    assert followers.follow("ada", output()) is not None


def test_who_leaves_a_quiet_session_gives_the_place_back() -> None:
    followers = Followers(most_each=1)
    aborted = threading.Event()

    def quiet() -> Iterator[bytes]:
        yield b"a line\n"
        assert aborted.wait(PATIENCE)

    async def leave() -> None:
        pieces = followers.follow("ada", LogStream(quiet(), aborted.set))
        assert await anext(pieces) == b"a line\n"
        await pieces.aclose()

    asyncio.run(leave())

    def place() -> bool:
        with contextlib.suppress(TooManyFollowers):
            followers.follow("ada", output())
            return True
        return False

    until(place, "the place is free")


@pytest.mark.parametrize("path", [f"/api/v1{HERE}/stream", f"{HERE}/live"])
def test_a_pass_that_ends_after_the_server_wakes_nobody(lab: Lab, path: str) -> None:
    lab.once()
    cluster = lab.hub.clusters["here"]
    listeners: list[Any] = cluster.listeners
    if path.endswith("/live"):
        listeners = lab.app.state.panel.news["here"].listeners
    with serving(lab.app) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.post("/login", data={"credential": "viewer"}, headers={"Origin": address})
        with client.stream("GET", path, headers=bearer("viewer")) as answer:
            assert answer.status_code == 200
            pieces = answer.iter_raw()  # Without a name it would be closed, and the connection with it.
            next(pieces)
            wake = listeners[-1]
    wake(*(() if path.endswith("/live") else (cluster.latest,)))
