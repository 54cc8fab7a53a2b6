"""Streams whose clients or whose server are gone in the wrong moment."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bai.web.streaming import Followers, TooManyFollowers
from tests.bai.web.lab import Lab, bearer, serving

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
            next(answer.iter_raw())
            wake = listeners[-1]
    wake(*(() if path.endswith("/live") else (cluster.latest,)))
