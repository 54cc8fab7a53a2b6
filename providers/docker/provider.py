"""The docker provider: kernels as containers on the nodes of a cluster, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from providers.abilities import KernelEvent, Usage
from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.docker import abilities, events, images, observe_nodes, usage
from providers.docker.container import create as making
from providers.docker.container import remove as ending
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import speaking
from providers.docker.fleet import Fleet
from providers.docker.interaction import logs
from providers.docker.interaction.interaction import Interaction
from providers.docker.network import Networks
from providers.docker.swarm import Swarms, part
from providers.images import NodeImage, PullRequest, Tell
from schemas.hardware.model import Hardware
from schemas.images.facts import Platform
from schemas.problems.errors import KernelNotFound


class DockerProvider(Interaction):
    """A `Provider` on the engines of these nodes (node → engine)."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self.fleet = Fleet(engines)
        self.sight = observe_nodes.Sight(self.fleet)
        self.swarms = Swarms(lambda: self.fleet.everywhere(lambda engine: part(engine.info()))[0])
        self.networks = Networks(self.engines, self.swarms)
        self.puller = images.Puller(self.fleet)

    @property
    def engines(self) -> Mapping[str, Engine]:
        return self.fleet.engines

    def engine(self, node: str) -> Engine:
        """Raises ProviderError."""
        return self.fleet.of(node)

    def find(self, kernel_id: str) -> Engine:
        """The engine that has this kernel. Raises KernelNotFound, ProviderUnavailable."""
        return self.fleet.find(kernel_id)[0]

    def capabilities(self) -> Capabilities:
        return abilities.capabilities(self.fleet, self.swarms)

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """See `providers.abilities.Shares`."""
        wanted, ask = set(nodes), self.sight.keeper.means
        known, _ = self.fleet.everywhere(lambda engine: ask(engine) if engine.node in wanted else {})
        return {node: found for node, found in known.items() if node in wanted}

    # reading

    def observe(self) -> Observation:
        return self.sight.observe()

    def locate(self, where: Mapping[str, str]) -> None:
        self.fleet.locate(where)

    def usage(self) -> Iterator[Usage]:
        return usage.everywhere(self.fleet)

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        return events.everywhere(self.fleet, stop)

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        from providers.probe.remote import probe_all

        wanted = sorted(nodes & self.engines.keys())
        return probe_all({node: self.engines[node].connect for node in wanted})

    # making

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        engine = self.fleet.of(spec.labels.node)
        new = making.make(engine, self.networks.prepared(spec), self.sight.cores[engine.node], fence)
        self.fleet.found({spec.id: engine.node})
        return self._now(spec.id, new=new)

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        engine, found = self.fleet.find(kernel_id)
        fence()
        making.change(engine, kernel_id, spec, found, self.sight.cores[engine.node])
        return self._now(kernel_id)

    # ending

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        engine, found = self.fleet.find(kernel_id)
        ending.stop(engine, kernel_id, found, grace=grace, signal=signal)
        return self._now(kernel_id)

    def remove(self, kernel_id: str) -> None:
        nodes: tuple[str, ...] = tuple(self.engines)
        try:
            engine, found = self.fleet.find(kernel_id)
            ending.remove(engine, kernel_id, found)
            self.sight.cores[engine.node].free(kernel_id)
            nodes = (engine.node,)
        except KernelNotFound:
            self.sweep(kernel_id)
        self.networks.drop(kernel_id, nodes)
        self.fleet.lost(kernel_id)

    def sweep(self, kernel_id: str) -> None:
        """Secrets and files that were put on a node before the container was made."""
        self.fleet.everywhere(lambda engine: ending.sweep(engine, kernel_id))

    def _now(self, kernel_id: str, *, new: bool = False) -> Observed:
        engine, found = self.fleet.find(kernel_id)
        with speaking(engine.node, kernel_id):
            return self.sight.one(engine, kernel_id, found, new=new)

    # images

    def pull(self, request: PullRequest, tell: Tell) -> bool:
        return self.puller.pull(request, tell)

    def images(self, nodes: frozenset[str]) -> tuple[Mapping[str, tuple[NodeImage, ...]], Mapping[str, str]]:
        return images.listed(self.fleet, nodes)

    def image_facts(self, node: str, image: str) -> tuple[str, Platform, str] | None:
        return images.facts(self.fleet.of(node), image)

    # output; what a person does with a kernel is in `interaction`

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        return logs.output(self.fleet.find(kernel_id)[0], kernel_id, follow=follow, tail=tail)

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()
