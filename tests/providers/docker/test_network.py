"""Networks of sessions on real engines: made once, found by name, gone with the last container."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from providers.base import KernelSpec, Network, Observed, Peer, Published, SshLogin
from providers.docker.engine.errors import to_provider_error
from providers.docker.engine.http import EngineRefusal
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.docker.swarm import parse_swarm_status, swarm_members
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.docker import Engine, Engines
from tests.lab.docker_lab import join_swarm
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import LABELS, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")

SEED = "11" * 32
HOLD = "trap 'exit 0' TERM; sleep 1000000 & wait"


def member(
    name: str, text: str = HOLD, *, mode: str = "bridge", node: str = "n1", **fields: object
) -> KernelSpec:
    """One of two containers of a session."""
    own = mode in ("bridge", "overlay")
    network = Network(
        mode,  # type: ignore[arg-type]
        "bai-s-abc0-g1" if own else "",
        (name,) if own else (),
        {} if own else {"main1": "127.0.0.1", "sub1": "127.0.0.1"},
    )
    peers = tuple(Peer(each, each if own else "127.0.0.1", 2200) for each in ("main1", "sub1"))
    return script(
        text, f"s-{name}-abc0-g1",
        node=node, hostname=name, labels=replace(LABELS, kernel=name, node=node), network=network,
        login=SshLogin(2200, peers, "session-key:x", SEED, slots={"main1": 2, "sub1": 1}),
        env={"BACKENDAI_CLUSTER_HOST": name, "BACKENDAI_CLUSTER_ROLE": name[:-1]}, **fields,
    )  # fmt: skip


def networks(engine: Engine) -> list[str]:
    return [name for name in engine.docker("network", "ls", "--format", "{{.Name}}").split() if "bai" in name]


def ended(provider: DockerProvider, kernel: str) -> Observed:
    def done() -> Observed | None:
        return next((k for k in provider.observe().kernels if k.id == kernel and k.state == "exited"), None)

    until(lambda: done() is not None)
    found = done()
    assert found is not None
    return found


def said(provider: DockerProvider, kernel: str) -> str:
    return b"".join(provider.logs(kernel)).decode()


def test_a_bridge_of_their_own_that_goes_with_the_last(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    (engine,) = engines(1)
    main = member("main1", "{ ping -c 1 sub1 || nslookup sub1; } 2>&1; hostname; cat /run/bai/hostfile")
    threads = [threading.Thread(target=provider.create, args=(each,)) for each in (main, member("sub1"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert networks(engine) == ["bai-s-abc0-g1"]
    assert ended(provider, main.id).exit_code == 0
    assert said(provider, main.id).endswith("main1\nmain1 slots=2\nsub1 slots=1\n")
    provider.remove(main.id)
    assert networks(engine) == ["bai-s-abc0-g1"]
    provider.remove("s-sub1-abc0-g1")
    assert networks(engine) == []


def test_what_a_container_removed_by_hand_left_goes_too(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    (engine,) = engines(1)
    made = provider.create(member("sub1"))
    engine.docker("rm", "-f", made.id)
    assert networks(engine)
    provider.remove(made.id)
    assert networks(engine) == []


def test_ports_are_published_on_the_node(on_engines: Open, engines: Engines) -> None:
    provider = on_engines()
    (engine,) = engines(1)
    spec = script("mkdir w; echo hello >w/a; httpd -f -p 8080 -h w")
    provider.create(replace(spec, network=Network(published=(Published(8080, 20_080),))))

    def fetched() -> bool:
        return engine.run(["busybox", "wget", "-qO-", f"http://{engine.address}:20080/a"]).stdout == "hello\n"

    until(fetched)


def test_the_nodes_own_network_has_names(on_engines: Open) -> None:
    provider = on_engines()
    made = provider.create(member("main1", "grep -c '127.0.0.1.*1$' /etc/hosts; hostname", mode="host"))
    assert ended(provider, made.id).exit_code == 0
    assert said(provider, made.id) == "2\nmain1\n"


def test_a_host_name_becomes_an_address_or_is_refused(on_engines: Open) -> None:
    provider = on_engines()
    spec = script("grep -w peer /etc/hosts")
    made = provider.create(replace(spec, network=Network("host", hosts={"peer": "localhost"})))
    assert ended(provider, made.id).exit_code == 0 and said(provider, made.id).startswith("127.0.0.1")
    with pytest.raises(KernelRefused, match=r"address of no\.such\.host\.invalid"):
        provider.create(
            replace(spec, id="s-main1-1-g1", network=Network("host", hosts={"peer": "no.such.host.invalid"}))
        )


def test_without_a_swarm_there_is_no_overlay(on_engines: Open) -> None:
    provider = on_engines(2)
    can = provider.capabilities()
    assert can.overlays == {} and "in no swarm" in can.no_overlay["n1"]
    with pytest.raises(KernelRefused, match="in no swarm"):
        provider.create(member("main1", mode="overlay"))
    assert provider.observe().kernels == ()


@pytest.fixture(scope="module")
def swarm(engines: Engines) -> Iterator[list[Engine]]:
    """A manager and a worker."""
    pair = [engines.private("--dns", "127.0.0.1") for _ in range(2)]
    join_swarm(pair)
    yield pair
    for engine in pair:
        engine.kill()


def test_an_overlay_spans_the_nodes_of_a_swarm(swarm: list[Engine]) -> None:
    manager, worker = swarm
    provider = open_docker({}, machines=[engine.endpoint() for engine in swarm])
    can = provider.capabilities()
    assert len(set(can.overlays.values())) == 1 and set(can.overlays) == {manager.name, worker.name}
    sub = member("sub1", "nc -l -p 5000 -e echo from-sub1", mode="overlay", node=worker.name)
    main = member(
        "main1", "until nc sub1 5000 | grep from; do sleep 0.2; done", mode="overlay", node=manager.name
    )
    try:
        provider.create(sub)
        assert networks(manager) == networks(worker) == ["bai-s-abc0-g1"]
        provider.create(main)
        assert ended(provider, main.id).exit_code == 0
        assert "from-sub1" in said(provider, main.id)
        provider.remove(main.id)
        provider.remove(sub.id)
        # A worker forgets it when its manager says so.
        until(lambda: networks(manager) == networks(worker) == [], "it goes with the last container")
    finally:
        provider.close()
        for engine in swarm:
            engine.wipe()


def test_a_slow_swarm_is_asked_again() -> None:
    why = "attaching to network failed, check manager logs: context deadline exceeded"
    slow = to_provider_error(EngineRefusal(500, why), "n1", "s-main1-abc0-g1", making=True)
    assert slow.retryable and "n1" in str(slow)
    refused = to_provider_error(EngineRefusal(500, "no such device"), "n1", "s-main1-abc0-g1", making=True)
    assert not refused.retryable


def test_only_those_whose_manager_is_known_share_a_swarm() -> None:
    manager = {
        "NodeID": "a", "LocalNodeState": "active", "ControlAvailable": True, "Cluster": {"ID": "one"},
        "RemoteManagers": [{"NodeID": "a"}],
    }  # fmt: skip
    worker = {"NodeID": "b", "LocalNodeState": "active", "RemoteManagers": [{"NodeID": "a"}]}
    stranger = {"NodeID": "c", "LocalNodeState": "active", "RemoteManagers": [{"NodeID": "z"}]}
    broken = {"LocalNodeState": "error", "Error": "certificate expired"}
    infos = {"m": manager, "w": worker, "s": stranger, "e": broken, "n": {}}
    found = swarm_members({node: parse_swarm_status({"Swarm": swarm}) for node, swarm in infos.items()})
    assert {node: each.domain for node, each in found.items()} == {
        "m": "one",
        "w": "one",
        "s": "",
        "e": "",
        "n": "",
    }
    assert found["m"].manager and not found["w"].manager
    assert "no manager of its swarm" in found["s"].why
    assert found["e"].why == "its swarm is error: certificate expired"
