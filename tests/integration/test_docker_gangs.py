"""Sessions of several containers on real engines: they find each other, log in to each other, sum over all of
them, and end together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import KernelSpec, Network, Peer, SshLogin
from providers.docker.options import open_docker
from tests.integration.gang import Gangs
from tests.lab import mpi
from tests.lab.cache import LabUnavailable
from tests.lab.docker import IMAGE, Engine, Engines
from tests.lab.docker_lab import join_swarm
from tests.providers.docker.specs import LABELS, kernel
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker-clusters")

MakeGangs = Callable[..., Gangs]


@pytest.fixture(scope="module")
def swarm(engines: Engines) -> Iterator[list[Engine]]:
    """Two nodes in one swarm, with the image of multi-node work."""
    pair = [engines.private("--dns", "127.0.0.1") for _ in range(2)]
    try:
        for engine in pair:
            mpi.load(engine)
    except LabUnavailable as error:
        pytest.skip(f"docker lab: {error}")
    join_swarm(pair)
    yield pair
    for engine in pair:
        engine.kill()


@pytest.fixture
def gangs(tmp_path: Path, swarm: list[Engine]) -> Iterator[MakeGangs]:
    made: list[Gangs] = []

    def make(docker: str = "network: auto") -> Gangs:
        made.append(Gangs(tmp_path, swarm, docker))
        return made[-1]

    yield make
    for each in made:
        each.close()


def nothing_is_left(swarm: list[Engine]) -> None:
    """An overlay that the manager has removed goes from the other nodes when they hear of it."""
    for engine in swarm:
        assert engine.docker("ps", "-aq") == ""
        until(lambda at=engine: "bai" not in at.docker("network", "ls", "--format", "{{.Name}}"))


SUM = """
type: batch
image: {image}
cluster:
  mode: multi-node
  roles: {{main: 1, sub: 1}}
  perRole: {{sub: {{command: [sleep, "1000"]}}}}
resources: {{cpu: 2, memory: 512MiB}}
env: {{MARK: "it's\\nfine"}}
command: [sh, -c, "ssh sub1 'hostname; echo \\"$MARK\\"'; mpirun -H main1,sub1 python3 /opt/allreduce.py"]
"""


@pytest.mark.parametrize("network", ["overlay", "host"])
def test_a_sum_over_two_nodes(gangs: MakeGangs, network: str, swarm: list[Engine]) -> None:
    lab = gangs(f"network: {network}")
    lab.write("sum", SUM.format(image=mpi.MPI))
    lab.done()
    ended = lab.until("sum", "TERMINATED", "ERROR")
    said = mpi.without_warnings(lab.logs("sum"))
    assert (ended.phase, ended.result) == ("TERMINATED", "success"), said
    assert said == "sub1\nit's\nfine\n2 ranks on main1,sub1: 3 it's\nfine\n"
    assert ended.placement is not None
    assert {part.network for part in ended.placement.kernels} == {network}
    assert len({part.node for part in ended.placement.kernels}) == 2
    lab.done()
    assert {k.state for k in lab.open().provider.observe().kernels} == {"exited"}
    lab.drop("sum")
    lab.done()
    nothing_is_left(swarm)


PLAIN = """
type: {type}
image: {image}
cluster:
  mode: multi-node
  roles: {{main: 1, sub: 1}}
  perRole: {{sub: {{{sub}}}}}
resources: {{cpu: 2, memory: 256MiB}}
stop: {{grace: 1s}}
command: [sleep, "1000"]
"""


def test_one_that_fails_takes_the_others_with_it(gangs: MakeGangs) -> None:
    lab = gangs()
    lab.write("batch", PLAIN.format(type="batch", image=IMAGE, sub='command: [sh, -c, "exit 3"]'))
    lab.done()
    ended = lab.until("batch", "TERMINATED")
    assert (ended.result, ended.reason) == ("failure", "sub1 exited with 3")
    lab.done()
    assert {k.state for k in lab.open().provider.observe().kernels} == {"exited"}
    assert not lab.plan().changes


def test_all_or_nothing(gangs: MakeGangs, swarm: list[Engine]) -> None:
    """One of two nodes is not what its document says, so that its container is refused."""
    lab = gangs()
    nodes = lab.folder / "nodes.yaml"
    first, second = nodes.read_text().split("---")
    nodes.write_text(f"{first}---{second.replace('cpus: 0-1', 'cpus: 500-501')}")
    lab.write("half", PLAIN.format(type="interactive", image=IMAGE, sub=""))
    result = lab.apply()
    assert not result.ok
    assert "500-501" in " ".join(each.error for each in result.results)
    nothing_is_left(swarm)
    assert lab.record("half").phase == "ERROR"


def test_an_ordinary_user_logs_in_too(swarm: list[Engine]) -> None:
    """Without a home that can be written, with a read-only root, as whoever the container runs."""
    engine = swarm[0]
    provider = open_docker({}, machines=[engine.endpoint()])
    peers = tuple(Peer(name, name, 2200) for name in ("main1", "sub1"))

    def member(name: str, user: str, *command: str) -> KernelSpec:
        return kernel(
            f"u-{name}-abc1-g1", *command, image=mpi.MPI, node=engine.name, hostname=name, user=user,
            labels=replace(LABELS, kernel=name, node=engine.name), read_only_root=user == "0",
            network=Network("bridge", "bai-u-abc1-g1", (name,)),
            login=SshLogin(2200, peers, "session-key:x", "22" * 32),
            secret_env={"TOKEN": "to'ken"},
            env={"BACKENDAI_CLUSTER_HOST": name, "BACKENDAI_CLUSTER_ROLE": name[:-1]},
        )  # fmt: skip

    ssh = "ssh -F /run/bai/ssh/config sub1 'id -u; echo $BACKENDAI_CLUSTER_HOST $TOKEN'"
    try:
        for user in ("1000", "0"):
            provider.create(member("sub1", user, "sleep", "1000"))
            main = provider.create(member("main1", user, "sh", "-c", ssh))
            until(lambda: any(k.state == "exited" for k in provider.observe().kernels))
            assert b"".join(provider.logs(main.id)).decode() == f"{user}\nsub1 to'ken\n"
            for each in provider.observe().kernels:
                provider.remove(each.id)
    finally:
        provider.close()
        engine.wipe()
