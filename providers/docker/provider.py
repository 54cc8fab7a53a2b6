"""The docker provider: kernels as containers on the nodes of a cluster, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from providers.abilities import KernelEvent, Usage
from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.docker import capabilities, events, images, observe_nodes, usage
from providers.docker.container import gpu_share
from providers.docker.container.create import create_container, update_container
from providers.docker.container.remove import remove_container, stop_container, sweep_leftovers
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import engine_errors
from providers.docker.fleet import Fleet
from providers.docker.interaction import logs
from providers.docker.interaction.interaction import Interaction
from providers.docker.network import SessionNetworks
from providers.docker.swarm import Swarms, parse_swarm_status
from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
from providers.images import NodeImage, OnPullProgress, PullRequest
from schemas.hardware.model import Hardware
from schemas.images.facts import ImagePlatform
from schemas.problems.errors.kernel import KernelNotFound


class DockerProvider(Interaction):
    """A `Provider` on the engines of these nodes (node → engine)."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self.fleet = Fleet(engines)
        self.observer = observe_nodes.FleetObserver(self.fleet)
        self.swarms = Swarms(lambda: self.fleet.ask_all(lambda engine: parse_swarm_status(engine.info()))[0])
        self.networks = SessionNetworks(self.engines, self.swarms)
        self.puller = images.Puller(self.fleet)

    @property
    def engines(self) -> Mapping[str, Engine]:
        return self.fleet.engines

    def engine(self, node: str) -> Engine:
        """Raises ProviderError."""
        return self.fleet.engine_of(node)

    def find(self, kernel_id: str) -> Engine:
        """The engine that has this kernel. Raises KernelNotFound, ProviderUnavailable."""
        return self.fleet.find(kernel_id)[0]

    def capabilities(self) -> Capabilities:
        return capabilities.capabilities(self.fleet, self.swarms)

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """See `providers.abilities.ReportsFractions`."""
        return {node: found.missing for node, found in self.fraction_means(nodes).items()}

    def fraction_means(self, nodes: Iterable[str]) -> Mapping[str, NodeMeans]:
        """See `providers.abilities.TriesFractions`."""
        wanted, ask = set(nodes), self.observer.share_keeper.means
        known, _ = self.fleet.ask_all(
            lambda engine: ask(engine) if engine.node in wanted else None, patient=True
        )
        return {node: found for node, found in known.items() if found is not None}

    def try_fraction(self, node: str, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
        """See `providers.abilities.TriesFractions`."""
        engine = self.fleet.engine_of(node)
        with engine_errors(node):
            return gpu_share.try_part(engine, means, parts)

    # reading

    def observe(self) -> Observation:
        return self.observer.observe()

    def locate(self, where: Mapping[str, str]) -> None:
        self.fleet.locate(where)

    def usage(self) -> Iterator[Usage]:
        return usage.measure_all(self.fleet)

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        return events.stream_events(self.fleet, stop)

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        from providers.probe.remote import probe_all

        wanted = sorted(nodes & self.engines.keys())
        return probe_all({node: self.engines[node].connect for node in wanted})

    # making

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        engine = self.fleet.engine_of(spec.labels.node)
        new = create_container(engine, self.networks.prepare(spec), self.observer.cores[engine.node], fence)
        self.fleet.record_location({spec.id: engine.node})
        return self._observe_now(spec.id, new=new)

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        engine, found = self.fleet.find(kernel_id)
        fence()
        update_container(engine, kernel_id, spec, found, self.observer.cores[engine.node])
        return self._observe_now(kernel_id)

    # ending

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        engine, found = self.fleet.find(kernel_id)
        stop_container(engine, kernel_id, found, grace=grace, signal=signal)
        return self._observe_now(kernel_id)

    def remove(self, kernel_id: str) -> None:
        nodes: tuple[str, ...] = tuple(self.engines)
        try:
            engine, found = self.fleet.find(kernel_id)
            remove_container(engine, kernel_id, found)
            self.observer.cores[engine.node].release(kernel_id)
            nodes = (engine.node,)
        except KernelNotFound:
            self.sweep(kernel_id)
        self.networks.release(kernel_id, nodes)
        self.fleet.forget_location(kernel_id)

    def sweep(self, kernel_id: str) -> None:
        """Secrets and files that were put on a node before the container was made."""
        self.fleet.ask_all(lambda engine: sweep_leftovers(engine, kernel_id))

    def _observe_now(self, kernel_id: str, *, new: bool = False) -> Observed:
        engine, found = self.fleet.find(kernel_id)
        with engine_errors(engine.node, kernel_id):
            return self.observer.observe_kernel(engine, kernel_id, found, new=new)

    # images

    def pull(self, request: PullRequest, tell: OnPullProgress) -> bool:
        return self.puller.pull(request, tell)

    def images(self, nodes: frozenset[str]) -> tuple[Mapping[str, tuple[NodeImage, ...]], Mapping[str, str]]:
        return images.list_images(self.fleet, nodes)

    def image_facts(self, node: str, image: str) -> tuple[str, ImagePlatform, str] | None:
        return images.image_facts(self.fleet.engine_of(node), image)

    # output; what a person does with a kernel is in `interaction`

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        return logs.read_logs(self.fleet.find(kernel_id)[0], kernel_id, follow=follow, tail=tail)

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()
