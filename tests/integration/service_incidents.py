"""What people and machines do to a service while clients ask it.

Each gives the times in which requests may fail that are under way then: none where no request may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from tests.harness.processes import child_called
from tests.integration.service_grounds import DockerGround
from tests.integration.service_lab import Life, ServiceLab, kill_process
from tests.integration.service_load import REPEATED, Load
from tests.waiting import until

Time = tuple[float, float]
Incident = Callable[[ServiceLab, Load], list[Time]]


def server_killed(lab: ServiceLab, load: Load) -> list[Time]:
    """Nobody listens until the next one has begun."""
    begun = lab.kill()
    lab.serve()
    return [(begun, until_answered(lab, load))]


def caddy_killed(lab: ServiceLab, load: Load) -> list[Time]:
    """bai begins another one, and holds the socket meanwhile: who comes then waits."""
    pid = child_called(lab.process.pid, "caddy")
    assert pid is not None
    killed = kill_process(pid)
    lab.until(lambda: child_called(lab.process.pid, "caddy") not in (None, pid), "there is another Caddy")
    until_answered(lab, load)
    return [killed]


def until_answered(lab: ServiceLab, load: Load) -> float:
    """Gives the moment before the first request that was answered then."""
    since = time.monotonic()
    lab.until(lambda: load.answered_by(since), "somebody answers")
    return min(each.ended for each in load.since(since) if not each.problem)


def replica_killed(lab: ServiceLab, load: Load) -> list[Time]:
    """By its main process; it is back by itself."""
    return _replica_killed(lab, load, lambda victim: kill_process(lab.lives.pid(victim)))


def container_killed(lab: ServiceLab, load: Load) -> list[Time]:
    """By its engine, which does not begin it again: it is gone until bai makes it anew."""
    return _replica_killed(lab, load, lambda victim: docker_of(lab).kill(victim.replica))


def _replica_killed(lab: ServiceLab, load: Load, kill: Callable[[Life], object]) -> list[Time]:
    """What is asked again somewhere else does not fail: only what may have had an effect does."""
    victim = lab.lives.there()[0]
    begun = time.monotonic()
    watching = lab.lives.when_ended([victim])
    kill(victim)
    watching.join()
    assert victim.end is not None
    lab.until(lambda: not _is_asked(lab, victim), f"{victim.replica} is asked no more")
    seconds = time.monotonic() - victim.end
    load.until_asked()
    slowest = max(each.ended - each.begun for each in load.since(victim.end))
    print(f"{victim.replica} was asked no more {seconds:.2f} s after its end; slowest since: {slowest:.2f} s")
    assert not [each for each in load.problems(begun) if each.kind in REPEATED and each.ended > victim.end]
    return [(begun, victim.end)]


def _is_asked(lab: ServiceLab, life: Life) -> bool:
    """Whether the server takes it for one that is ready, though it has ended."""
    identity = f"Session/demo/{life.replica}"
    said = [each for each in lab.service().get("replicas") or () if each["session"] == identity]
    back = any(each.replica == life.replica for each in lab.lives.serving())
    return bool(said) and said[0]["phase"] == "ready" and not back


def only_node_drained(lab: ServiceLab, load: Load) -> list[Time]:
    """There is nowhere else to go: everybody stays, and is asked."""
    lab.drain(lab.ground.nodes[0])
    lab.until(lambda: _leaving(lab), "replicas are to leave")
    load.until_asked(100)
    lab.drain("")
    return []


def _leaving(lab: ServiceLab) -> bool:
    return any("drained" in each["why"] for each in lab.service().get("replicas") or ())


def node_drained(lab: ServiceLab, load: Load) -> list[Time]:
    """In the middle of what goes on, and another one when there is peace: its replicas are elsewhere then."""
    ground = docker_of(lab)
    _drained(lab, ground.fullest())
    lab.until(lambda: _settled(lab), "the other nodes have all of them")
    node = ground.fullest()
    before = ground.replicas_on()[node]
    assert before
    lab.drain(node)
    lab.until(lambda: not ground.replicas_on()[node] and _settled(lab), f"{before} have left {node}")
    assert sum(map(len, ground.replicas_on().values())) == lab.replicas
    print(f"{len(before)} replicas have left {node}")
    load.until_asked()
    lab.drain("")
    return []


def _drained(lab: ServiceLab, node: str) -> None:
    lab.drain(node)
    lab.until(lambda: not docker_of(lab).replicas_on()[node], f"{node} is empty")


def _settled(lab: ServiceLab) -> bool:
    """Whether there is one version, of which all are there, and nobody beside."""
    versions = lab.lives.versions()
    return len(versions) == 1 and lab.complete(*versions)


def engine_killed(lab: ServiceLab, load: Load) -> list[Time]:
    """It begins again soon; that ends its containers, which begin again, too."""
    return _engine_killed(lab, load, lambda _: load.until_asked(50))


def engine_lost(lab: ServiceLab, load: Load) -> list[Time]:
    """For so long that its replicas are made anew elsewhere; those that it still has go when it is back."""
    ground = docker_of(lab)

    def elsewhere(_: str) -> None:
        lab.until(
            lambda: sum(map(len, ground.replicas_on().values())) >= lab.replicas, "as many are elsewhere"
        )

    return _engine_killed(lab, load, elsewhere)


def _engine_killed(lab: ServiceLab, load: Load, meanwhile: Callable[[str], None]) -> list[Time]:
    """While it is away its containers go on, and new requests go to others: none fails then."""
    ground = docker_of(lab)
    name = ground.fullest()
    engine, there = ground.engines[name], ground.replicas_on()[name]
    lives = [each for each in lab.lives.serving() if each.replica in there]
    assert lives
    watching = lab.lives.when_ended(lives)
    engine.kill()
    meanwhile(name)
    ended = _ends(lives)
    begun = time.monotonic()
    engine.start()
    engine.wait()
    watching.join()
    return [(begun, end) for end in set(_ends(lives)) - set(ended)]


def _ends(lives: Iterable[Life]) -> Collection[float]:
    return [each.end for each in lives if each.end is not None]


def docker_of(lab: ServiceLab) -> DockerGround:
    assert isinstance(lab.ground, DockerGround)
    return lab.ground


ON_ONE_NODE: tuple[Incident, ...] = (only_node_drained, server_killed, caddy_killed)
ON_SEVERAL_NODES: tuple[Incident, ...] = (
    node_drained, server_killed, caddy_killed, engine_killed, engine_lost, replica_killed,
    container_killed,
)  # fmt: skip
QUIET = (only_node_drained, node_drained, server_killed, caddy_killed)
"""Which take no replica."""


def updated(lab: ServiceLab, load: Load, version: str, incident: Incident) -> list[Time]:
    """To a version, with an incident when that begins to answer; only this version answers in the end."""
    begun = time.monotonic()
    lab.write(version)
    until(lambda: load.answered_by(begun)[version], f"{version} answers")
    down = incident(lab, load)
    lab.until_complete(version)
    since = time.monotonic()
    load.until_asked()
    assert set(load.answered_by(since)) == {version}
    if incident in QUIET:
        assert lab.lives.least(begun) == lab.replicas
    asked = load.since(begun)
    failed, slowest = len(load.problems(begun)), max(each.ended - each.begun for each in asked)
    print(f"{version}, {incident.__name__}: {len(asked)} requests, {failed} failed, slowest {slowest:.1f} s")
    return down
