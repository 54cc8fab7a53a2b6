"""The way of one connection to a service: which replicas are tried, and what waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bai.web.apps.proxy.balancer import Balancer, Replica
from providers.machines.base import Stream
from providers.machines.dialling import dialled
from providers.machines.relay import BROKEN, reason

DIAL_LIMIT = 5.0
"""Seconds in which a replica has to take a connection."""
MOST_TRIES = 8
"""Replicas that one connection tries."""
_LOOK_AGAIN = 0.1
"""Seconds between two looks for a replica, for those that wait for one."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`hold`: seconds for which a connection waits for a replica where there is none; `limit`: in which one
    has to take it; `timed`: whether the first bytes that come back are an answer's."""

    hold: float = 0.0
    limit: float = DIAL_LIMIT
    timed: bool = True


class ServiceWay:
    """The way of one connection to one port of a service: to a replica, and to the next one where that is not
    reached; where there is none, it waits for one, if not too many wait. `dial`: a place and its port; raises
    BaiError, OSError."""

    def __init__(
        self, balancer: Balancer, service: str, port: int, dial: Callable[[str, int], Stream],
        terms: Terms = Terms(),
    ) -> None:  # fmt: skip
        self._balancer, self._service, self._port = balancer, service, port
        self._dial, self._terms = dial, terms
        self._began, self._place, self._refusal = 0.0, "", ""

    async def wait(self, gone: Callable[[], bool]) -> None:
        self._balancer.begin(self._service)
        try:
            if self._terms.hold and not self._balancer.can_serve(self._service):
                await self._wait(gone)
        finally:
            self._began = self._balancer.found(self._service)

    async def _wait(self, gone: Callable[[], bool]) -> None:
        if not self._balancer.hold(self._service):
            self._refusal = "no replica is ready, and too many requests wait for one, or did in vain"
            return
        in_vain = False
        try:
            async with asyncio.timeout(self._terms.hold):
                while not self._balancer.can_serve(self._service):
                    await asyncio.sleep(_LOOK_AGAIN)
                    if gone():
                        self._refusal = "who asked has gone while no replica was ready"
                        return
        except TimeoutError:
            in_vain = True
            self._refusal = f"no replica was ready within {self._terms.hold:g} seconds"
        finally:
            self._balancer.release(self._service, in_vain=in_vain)

    async def connect(self) -> Stream:
        """Raises ConnectionError."""
        if self._refusal:
            raise ConnectionError(self._refusal)
        tried: dict[str, str] = {}
        while len(tried) < MOST_TRIES and (replica := self._balancer.choose(self._service, tried)):
            try:
                stream = await self._reach(replica)
            except BROKEN as error:
                tried[replica.place] = _why(error)
            else:
                self._place = replica.place
                return stream
        told = "; ".join(f"{place}: {why}" for place, why in tried.items())
        raise ConnectionError(told or "no replica is ready")

    def answered(self) -> None:
        if self._terms.timed:
            self._balancer.answered(self._service, self._began)

    def over(self) -> None:
        self._balancer.over(self._place)

    async def _reach(self, replica: Replica) -> Stream:
        try:
            port = replica.listening(self._port)
            # `asyncio.wait_for` of Python 3.11 lets no end through that comes with what is waited for.
            async with asyncio.timeout(self._terms.limit):
                stream = await dialled(partial(self._dial, replica.place, port))
        except BROKEN:
            self._balancer.lost(replica.place)
            raise
        except BaseException:
            self._balancer.over(replica.place)
            raise
        self._balancer.reached(replica.place)
        return stream


def _why(error: BaseException) -> str:
    return "it takes no connection" if isinstance(error, TimeoutError) else reason(error)
