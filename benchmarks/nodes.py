"""What the loop asks of nodes with Docker engines over SSH, and whether slow and dead ones hold up others.

    sudo python -m benchmarks.nodes --real 50 --simulated 1250 --json result.json

The real loop and the real docker provider look at `--real` nodes on `--servers` OpenSSH servers of this
machine, and at `--simulated` ones without SSH, whose dead ones take ten seconds to fail. Engines answer as
idle ones do (`tests/lab/answering_engine.py`), sessions are made in memory. Of each kind, in a process of its
own:

- `connections`, `threads`, `descriptors`, `peak_mib`: with all nodes connected and their events heard.
- `first`: seconds of the first pass, with all logins; `idle`: of one with nothing to do (median); `..._cpu`:
  CPU-seconds of this process, with what hears events.
- `start`: seconds from a pass's beginning until the container of a new session is made on another node, and
  `pass`: until its end. `onset`: when 5 % of the nodes have just become slow (30 s for each answer) or dead;
  `later`: median, and `worst`, of the passes after that, in some of which they are asked again.
- `observed`: how many nodes the last of these passes saw.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bai.cli.main import start_lightly
from benchmarks.loop import Bench
from benchmarks.results import parser_of, show
from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.docker.engine.connection import dialer, engine_address
from providers.docker.engine.engine import Engine
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.fake import FakeProvider, World
from providers.machines.base import Endpoint, Stream
from providers.machines.connections import connect
from schemas.kinds.cluster import Ssh
from schemas.kinds.parts.docker import Docker
from tests.lab.answering_engine import answering_engines
from tests.lab.sshd import SshdNodes, why_not

ROOT = Path(__file__).resolve().parent.parent
PART = 0.05
"""Of the nodes are slow, or dead."""
SLOW = 30.0
OBSERVE_TIMEOUT = "10s"
DEAD = 10.0
"""Seconds until a simulated dead node has failed."""
AGAIN = 4
PAUSE = 2.5
"""Seconds between passes: for those that did not answer to be due again."""


@dataclass(frozen=True, slots=True)
class Job:
    """For the process that is measured. `servers`: addresses that real nodes are on in turn."""

    count: int
    sockets: str
    servers: list[str]
    key: str = ""
    known_hosts: str = ""

    @property
    def names(self) -> list[str]:
        return [f"dgx-{number:04}" for number in range(1, self.count + 1)]

    @property
    def addresses(self) -> list[str]:
        return [self.servers[at % len(self.servers)] for at in range(self.count)]


class LookedAt(FakeProvider):
    """Kernels in memory, on nodes whose engines are really asked."""

    def __init__(self, world: World, docker: DockerProvider) -> None:
        super().__init__(world)
        self.docker = docker
        self.observed = 0
        self.made = 0.0
        """When a kernel was last created."""

    def capabilities(self) -> Capabilities:
        self.docker.capabilities()
        return super().capabilities()

    def observe(self) -> Observation:
        seen, held = self.docker.observe(), super().observe()
        self.observed = len(self.docker.engines) - len(seen.unreachable)
        kernels = tuple(each for each in held.kernels if each.labels.node not in seen.unreachable)
        return replace(held, kernels=kernels, unreachable=dict(seen.unreachable))

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        self.docker.engine(spec.labels.node).call("POST", "/containers/create", body={})
        self.made = time.perf_counter()
        return super().create(spec, fence)


class Measured:
    """The loop over these nodes; sessions come one at a time."""

    def __init__(self, root: Path, docker: DockerProvider, nodes: int) -> None:
        self._bench = Bench(root, nodes, nodes // 2, gpus=(1, 2))
        self.provider = LookedAt(self._bench.world, docker)
        self._bench.loop.workspace.provider = self.provider
        self._count = 0

    def look(self) -> float:
        return self._bench.once()["wall"]

    def start(self) -> dict[str, float]:
        self._count += 1
        began = time.perf_counter()
        taken = self._bench.add(f"more{self._count}")["wall"]
        return {"start": self.provider.made - began, "pass": taken}

    def await_all(self) -> None:
        """Until every node is observed again."""
        while self.provider.observed < len(self.provider.docker.engines):
            time.sleep(PAUSE)
            self.look()

    def phase(self) -> dict[str, Any]:
        onset = self.start()
        later = []
        for _ in range(AGAIN):
            time.sleep(PAUSE)
            later.append(self.start())
        return {
            "onset": rounded(onset),
            "later": rounded({name: statistics.median(each[name] for each in later) for name in onset}),
            "worst": rounded({name: max(each[name] for each in later) for name in onset}),
            "observed": self.provider.observed,
        }


def rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in found.items()}


def used() -> dict[str, float]:
    """By this process, now."""
    descriptors = os.listdir("/proc/self/fd")
    sockets = 0
    for each in descriptors:
        with contextlib.suppress(OSError):
            sockets += os.readlink(f"/proc/self/fd/{each}").startswith("socket:")
    return {
        "connections": sockets, "threads": threading.active_count(), "descriptors": len(descriptors),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }  # fmt: skip


def measured(docker: DockerProvider, job: Job, act: Callable[[str], None]) -> dict[str, Any]:
    """In this process. `act` makes nodes slow or dead, or mends them."""
    before = used()
    with tempfile.TemporaryDirectory(prefix="bai-nodes-") as folder:
        found = Measured(Path(folder), docker, job.count)
        cpu = time.process_time()
        result: dict[str, Any] = {"nodes": job.count, "first": round(found.look(), 2)}
        result["first_cpu"] = round(time.process_time() - cpu, 2)
        found.await_all()
        threading.Thread(target=lambda: list(docker.events(lambda: False)), daemon=True).start()
        time.sleep(PAUSE)
        cpu = time.process_time()
        result["idle"] = round(statistics.median(found.look() for _ in range(AGAIN)), 2)
        result["idle_cpu"] = round((time.process_time() - cpu) / AGAIN, 2)
        result["well"] = found.phase()
        result |= {"before": before, "connected": used()}
        for what in ("slow", "dead"):
            act(what)
            result[what] = found.phase()
            result[what]["threads"] = threading.active_count()
            act("mend")
            found.await_all()
    return result


def real_nodes(job: Job) -> DockerProvider:
    ssh = Ssh.model_validate({"user": "root", "keyFrom": "lab/key", "knownHostsFrom": "lab/known_hosts"})
    files = {"lab/key": job.key, "lab/known_hosts": job.known_hosts}
    return open_docker({"observeTimeout": OBSERVE_TIMEOUT}, machines=[
        Endpoint(
            name, address, ssh=ssh, options={"socket": f"{job.sockets}/{name}.sock"},
            secret=lambda name: Path(files[name]).read_text(),
        )
        for name, address in zip(job.names, job.addresses, strict=True)
    ])  # fmt: skip


_dead: set[str] = set()
_failed: dict[str, float] = {}


def simulated_nodes(job: Job) -> DockerProvider:
    def engine(name: str) -> Engine:
        socket = f"{job.sockets}/{name}.sock"
        options = Docker.model_validate({"socket": socket, "observeTimeout": OBSERVE_TIMEOUT})
        endpoint = Endpoint(name, name, local=True)
        dial = dialer(engine_address(endpoint, options), lambda: connect(endpoint))

        def reach() -> Stream:
            if name not in _dead:
                return dial()
            if (
                time.monotonic() - _failed.get(name, -DEAD) >= DEAD
            ):  # as a failed login is not repeated at once
                time.sleep(DEAD)
                _failed[name] = time.monotonic()
            raise TimeoutError

        return Engine(name, options, reach, lambda: connect(endpoint), local=True)

    return DockerProvider({name: engine(name) for name in job.names})


def some(names: Sequence[str]) -> list[str]:
    return list(names[:: round(1 / PART)])


def measure_simulated(job: Job) -> dict[str, Any]:
    """In this process."""
    folder, docker = Path(job.sockets), simulated_nodes(job)

    def act(what: str) -> None:
        for name in some(job.names):
            delay = folder / f"{name}.delay"
            if what == "slow":
                delay.write_text(str(SLOW))
            elif what == "dead":
                _dead.add(name)
            else:
                delay.unlink(missing_ok=True)
                _dead.discard(name)
        docker.close()

    return measured(docker, job, act)


def tell_parent(what: str) -> None:
    print(what, flush=True)
    assert sys.stdin.readline() == "done\n"


def child(argv: list[str], act: Callable[[str], None]) -> dict[str, Any]:
    """What the process finds out; `act` does what it asks for."""
    with subprocess.Popen(
        argv, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
            act(line.strip())
            process.stdin.write("done\n")
            process.stdin.flush()
    raise SystemExit("the process that was measured ended without a result")


@contextlib.contextmanager
def job_of(count: int, folder: Path) -> Iterator[tuple[Job, Any]]:
    job = Job(count, str(folder), [])
    with answering_engines(folder, job.names) as engines:
        yield job, engines


def real(count: int, servers: int) -> dict[str, Any]:
    with (
        contextlib.closing(SshdNodes()) as nodes,
        tempfile.TemporaryDirectory() as folder,
        job_of(count, Path(folder)) as (job, engines),
    ):
        there = nodes(min(count, servers))
        job = replace(
            job, servers=[node.address for node in there], key=str(nodes.key),
            known_hosts=str(nodes.known_hosts),
        )  # fmt: skip
        chosen = there[:: round(1 / PART)]
        addresses = {node.address for node in chosen}

        def act(what: str) -> None:
            for node in chosen:
                node.link(up=what != "dead")
            for name, address in zip(job.names, job.addresses, strict=True):
                if address in addresses:
                    engines.delay(name, SLOW if what == "slow" else 0.0)

        return child(nodes.command([*_ITSELF, json.dumps(asdict(job))]), act)


def simulated(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, job_of(count, Path(folder)) as (job, _):
        return child([*_ITSELF, json.dumps(asdict(job))], lambda what: None)


_ITSELF = (sys.executable, "-m", "benchmarks.nodes", "--job")


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        job = Job(**json.loads(sys.argv[2]))
        start_lightly()  # as every `bai` does
        found = measured(real_nodes(job), job, tell_parent) if job.servers else measure_simulated(job)
        print(json.dumps(found), flush=True)
        os._exit(0)  # Questions to the dead are still open.
    parser = parser_of("nodes", __doc__)
    parser.add_argument("--real", type=int, default=50, help="nodes over SSH; 0: none")
    parser.add_argument("--servers", type=int, default=50, help="SSH servers that these are on")
    parser.add_argument("--simulated", type=int, default=1250, help="nodes without; 0: none")
    given = parser.parse_args()
    if given.real and (lacks := why_not()):
        raise SystemExit(f"no SSH server here: {lacks}")
    found = {
        "real": real(given.real, given.servers) if given.real else None,
        "simulated": simulated(given.simulated) if given.simulated else None,
    }
    show({"version": "bai.benchmark.nodes/v1", **found, "load": os.getloadavg()[0]}, given.json)


if __name__ == "__main__":
    main()
