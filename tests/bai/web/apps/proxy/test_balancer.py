"""Which replica a balancer chooses, by values alone."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter

import pytest

from bai.web.apps import replica_traffic
from bai.web.apps.proxy.balancer import SKIPPED, Balancer, Replica
from bai.web.apps.proxy.service_way import MOST_TRIES, ServiceWay, Terms
from bai.web.apps.replica_traffic import ReplicaTraffic
from providers.machines.base import Stream
from tests.waiting import until

WEB, API = "c/Service/p/web", "c/Service/p/api"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def balancer(clock: Clock) -> Balancer:
    return Balancer(clock)


def replica(name: str, generation: str = "g", weight: float = 1.0, ready: set[str] | None = None) -> Replica:
    """Of those in `ready`, where that is given."""
    return Replica(
        f"c/{name}", generation, weight, lambda port: port + 1, lambda: ready is None or name in ready
    )


def chosen(balancer: Balancer, service: str = WEB, *tried: str) -> str:
    """Whose connection is over at once."""
    found = balancer.choose(service, tried)
    if found is None:
        return ""
    balancer.over(found.place)
    return found.place.removeprefix("c/")


def test_there_is_none_of_an_unknown_service(balancer: Balancer) -> None:
    assert balancer.choose(WEB, ()) is None and not balancer.can_serve(WEB)


def test_only_those_with_a_weight_that_are_ready(balancer: Balancer) -> None:
    ready = {"a", "b"}
    balancer.update(
        "c", {WEB: [replica("a", ready=ready), replica("b", weight=0), replica("c", ready=ready)]}
    )
    assert {chosen(balancer) for _ in range(4)} == {"a"}
    ready.add("c")
    assert {chosen(balancer) for _ in range(4)} == {"a", "c"}
    ready.clear()
    assert chosen(balancer) == "" and not balancer.can_serve(WEB)


def test_a_service_gets_none_of_anothers_replicas(balancer: Balancer) -> None:
    balancer.update("c", {WEB: [replica("web")], API: [replica("api")]})
    balancer.update("d", {"d/Service/p/web": []})
    assert {chosen(balancer, WEB) for _ in range(4)} == {"web"}
    assert {chosen(balancer, API) for _ in range(4)} == {"api"}
    balancer.update("c", {API: [replica("api")]})
    assert not balancer.can_serve(WEB) and balancer.can_serve(API)


def test_a_generations_part_does_not_hang_on_how_many_replicas_it_has(balancer: Balancer) -> None:
    them = [replica("a1", "a", 30), replica("a2", "a", 30), replica("b1", "b", 40)]
    balancer.update("c", {WEB: them})
    found = Counter(chosen(balancer) for _ in range(100))
    assert (found["a1"], found["a2"], found["b1"]) == (30, 30, 40)


def test_a_generation_keeps_its_part_while_one_of_its_replicas_is_away(balancer: Balancer) -> None:
    ready = {"a1", "b1"}
    them = [replica("a1", "a", 30, ready), replica("a2", "a", 30, ready), replica("b1", "b", 40, ready)]
    balancer.update("c", {WEB: them})
    assert Counter(chosen(balancer) for _ in range(100)) == {"a1": 60, "b1": 40}


def test_turns_go_on_over_updates(balancer: Balancer) -> None:
    found: Counter[str] = Counter()
    for _ in range(100):
        balancer.update("c", {WEB: [replica("a", "a", 90), replica("b", "b", 10)]})
        found[chosen(balancer)] += 1
    assert found == {"a": 90, "b": 10}


def test_one_that_was_not_reached_is_passed_over_and_tried_by_one_alone(
    balancer: Balancer, clock: Clock
) -> None:
    balancer.update("c", {WEB: [replica("a"), replica("b")]})
    assert balancer.choose(WEB, ["c/b"]) is not None
    balancer.lost("c/a")
    assert {chosen(balancer) for _ in range(4)} == {"b"}
    clock.now += SKIPPED
    held = [balancer.choose(WEB, ()) for _ in range(4)]
    assert Counter(each.place for each in held if each) == {"c/a": 1, "c/b": 3}
    balancer.reached("c/a")
    assert balancer.connections("c/a") == 1
    assert chosen(balancer) == "a"


def test_the_only_one_is_never_passed_over(balancer: Balancer) -> None:
    balancer.update("c", {WEB: [replica("a")]})
    for _ in range(3):
        assert balancer.choose(WEB, ()) is not None
        balancer.lost("c/a")
    assert balancer.connections("c/a") == 0
    assert chosen(balancer, WEB, "c/a") == ""


def test_who_is_drained_comes_back_with_the_next_picture(balancer: Balancer) -> None:
    """Not while somebody waits for it: the pass of another cluster, or an update of the same one."""
    balancer.update("c", {WEB: [replica("a")]})
    assert balancer.choose(WEB, ()) is not None
    told: list[int] = []
    stop = threading.Event()
    waiting = threading.Thread(target=balancer.drain, args=("c/a", 1.0, 1.0, told.append, stop), daemon=True)
    waiting.start()
    until(lambda: told, "it waits")
    balancer.update("c", {WEB: [replica("a")]})
    assert not balancer.can_serve(WEB)
    balancer.over("c/a")
    waiting.join(60)
    assert not balancer.can_serve(WEB)
    balancer.update("other", {})
    assert not balancer.can_serve(WEB)
    balancer.update("c", {WEB: [replica("a")]})
    assert balancer.can_serve(WEB)


def test_nothing_is_kept_of_replicas_that_are_gone(balancer: Balancer) -> None:
    for number in range(50):
        balancer.update("c", {WEB: [replica(f"r{number}")]})
        assert balancer.choose(WEB, ()) is not None
        balancer.lost(f"c/r{number}")
        balancer.drain(f"c/r{number}", 0, 0, lambda left: None, threading.Event())
    balancer.update("c", {})
    kept = [balancer._failed, balancer._last, balancer._open, balancer._away, balancer._tried_again]
    assert not any([*kept, balancer._drained_since, balancer._awaited])


def test_time_to_drain_counts_from_its_beginning_however_often_somebody_comes_back(
    balancer: Balancer, clock: Clock
) -> None:
    balancer.update("c", {WEB: [replica("a"), replica("b")]})
    assert balancer.choose(WEB, ["c/b"]) is not None

    def drained(grace: float) -> float:
        return balancer.drain("c/a", grace, 0.0, lambda left: None, threading.Event())

    assert drained(30) == 30
    clock.now += 20
    balancer.update("c", {WEB: [replica("b")]})
    assert drained(30) == 10
    clock.now += 10
    assert drained(30) == 0 and balancer.connections("c/a") == 1
    balancer.update("c", {WEB: [replica("a")]})
    assert drained(30) == 30, "it was wanted again in between"


def test_who_waits_for_the_last_connection_hears_of_it_once(balancer: Balancer) -> None:
    balancer.update("c", {WEB: [replica("a")]})
    heard: list[str] = []
    for _ in range(2):
        assert balancer.choose(WEB, ()) is not None
    for _ in range(3):
        balancer.when_over("c/a", lambda: heard.append("over"))
    balancer.over("c/a")
    assert heard == []
    balancer.over("c/a")
    assert heard == ["over"]
    balancer.when_over("c/a", lambda: heard.append("at once"))
    assert heard == ["over", "at once"]


def test_a_pass_comes_back_to_a_replica_when_it_is_drained_or_its_time_is_over(
    balancer: Balancer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No apply waits for long, whoever keeps a connection."""
    monkeypatch.setattr(replica_traffic, "PATIENCE", 0.0)
    said: list[str] = []
    woken = threading.Event()
    balancer.update("c", {WEB: [replica("a"), replica("b")]})
    traffic = ReplicaTraffic("c", balancer, said.append, woken.set)
    told: list[int] = []
    for place in ("c/a", "c/b"):
        assert balancer.choose(WEB, [other for other in ("c/a", "c/b") if other != place]) is not None
    assert not traffic.drain("a", 600, told.append, threading.Event()) and not woken.is_set()
    balancer.over("c/a")
    assert woken.is_set() and traffic.drain("a", 600, told.append, threading.Event())
    woken.clear()
    assert not traffic.drain("b", 0.01, told.append, threading.Event())
    until(woken.is_set, "its time is over")
    clock.now += 1
    assert traffic.drain("b", 0.01, told.append, threading.Event())
    assert said[-1] == "b is stopped with 1 connection left"


def test_a_connection_tries_so_many_and_says_why(balancer: Balancer) -> None:
    dialled: list[tuple[str, int]] = []

    def dial(place: str, port: int) -> Stream:
        dialled.append((place, port))
        raise ConnectionRefusedError(111, "Connection refused")

    balancer.update("c", {WEB: [replica(f"r{number}") for number in range(2 * MOST_TRIES)]})
    with pytest.raises(ConnectionError, match="c/r0: connection refused"):
        asyncio.run(ServiceWay(balancer, WEB, 80, dial, Terms(limit=60)).connect())
    assert len(set(dialled)) == MOST_TRIES and {port for _, port in dialled} == {81}
    assert not any(balancer.connections(place) for place, _ in dialled)


@pytest.mark.parametrize("turns", range(8))
def test_the_end_is_not_missed_by_who_was_just_dialled(balancer: Balancer, turns: int) -> None:
    """In whichever turn of the loop it comes: who did not hear of it would hold up the end of the server."""
    balancer.update("c", {WEB: [replica("a")]})
    go_on, near_far = threading.Event(), socket.socketpair()
    diallers: list[threading.Thread] = []

    def dial(place: str, port: int) -> Stream:
        diallers.append(threading.current_thread())
        go_on.wait(60)
        return near_far[0]

    async def run() -> None:
        connecting = asyncio.create_task(ServiceWay(balancer, WEB, 80, dial, Terms(limit=60)).connect())
        while not diallers:
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        told, tell = threading.Event(), loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *given, **more: (tell(*given, **more), told.set())  # type: ignore
        go_on.set()
        told.wait(60)  # The loop stands still until it is dialled.
        for _ in range(turns):
            await asyncio.sleep(0)
        if not connecting.cancel():
            connecting.result().close()
            balancer.over("c/a")
            return
        with pytest.raises(asyncio.CancelledError):
            await connecting

    asyncio.run(run())
    assert balancer.connections("c/a") == 0
    near_far[1].settimeout(60)
    assert near_far[1].recv(1) == b"", "what was dialled is closed"
    near_far[1].close()


def test_what_is_dialled_too_late_is_closed(balancer: Balancer) -> None:
    """And nobody's count is off."""
    go_on, near_far = threading.Event(), socket.socketpair()

    def dial(place: str, port: int) -> Stream:
        go_on.wait(60)
        return near_far[0]

    balancer.update("c", {WEB: [replica("a")]})
    with pytest.raises(ConnectionError, match="it takes no connection"):
        asyncio.run(ServiceWay(balancer, WEB, 80, dial, Terms(limit=0.01)).connect())
    assert balancer.connections("c/a") == 0
    go_on.set()
    near_far[1].settimeout(60)
    assert near_far[1].recv(1) == b""
    near_far[1].close()
