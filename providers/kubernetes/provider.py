"""The kubernetes provider: a whole cluster as one agent, whose own queue is always empty."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from providers.abilities import KernelEvent, SetupCheck, Usage
from providers.autoscaling.values import AskedNodes, NodeRequest
from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.kubernetes import capabilities, events
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.discovery.zones import add_zones
from providers.kubernetes.interaction.interaction import Interaction
from providers.kubernetes.node_requests import NodeRequester
from providers.kubernetes.objects import labels
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.observe.hardware import hardware_of
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.observe.pods import OwnPod
from providers.kubernetes.pods import end
from providers.kubernetes.pods.create import create_pod
from providers.kubernetes.pods.find import PodFinder, observed, ref_of_pod
from schemas.hardware.completion import describe
from schemas.hardware.model import Hardware
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.provider import ProviderError
from schemas.values.resource_ref import ref_of

_NO_NODE = "the cluster has no node of this name"


class KubernetesProvider(Interaction):
    """A `Provider` on one cluster. `nodes`: the names that the repository gives; empty: all."""

    def __init__(self, client: ApiClient, options: Kubernetes, nodes: Sequence[str] = ()) -> None:
        self.client = client
        self.options = options
        self.observer = Observer(client, options, nodes)
        self.finder = PodFinder(client, options)
        self.nodes = tuple(nodes)
        self.node_requester = NodeRequester(client, options, self.observer)

    def capabilities(self) -> Capabilities:
        with api_errors():
            return capabilities.capabilities(self.observer.last_seen(), self.nodes)

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """See `providers.abilities.ReportsFractions`."""
        with api_errors():
            return capabilities.fraction_obstacles(self.observer.last_devices(), self.options, nodes)

    # reading

    def observe(self) -> Observation:
        found = self.observer.observe()
        self._end_what_is_spent()
        return found

    def _end_what_is_spent(self) -> None:
        for (namespace, name), pod in self.observer.spent_pods().items():
            with contextlib.suppress(ProviderError), api_errors(name):
                ended = end.give_up(self.client, PodRef(namespace, name), pod.kernel.exit_code)
                self.observer.pods.record(ended)

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        """See `providers.abilities.ProbesHardware`."""
        try:
            with api_errors():
                known = {name: node for (_, name), node in self.observer.nodes.look().objects.items()}
                devices = self.observer.devices()
        except ProviderError as error:
            return {}, {name: str(error) for name in sorted(nodes)}
        found = {name: hardware_of(known[name], devices) for name in sorted(nodes & known.keys())}
        found = add_zones(self.client, found)
        return found, {name: _NO_NODE for name in sorted(nodes - known.keys())}

    def probe(
        self, nodes: frozenset[str], image: str = ""
    ) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        """See `providers.abilities.ProbesOnRequest`."""
        from providers.kubernetes.probe.look import probe_nodes

        seen, failed = self.hardware(nodes)
        with api_errors():
            known = self.observer.nodes.look().objects
        there = [known["", name] for name in seen if ("", name) in known]
        looked, refused = probe_nodes(self.client, self.options, there, image)
        found = {name: describe(seen[name], each) for name, each in looked.items()}
        return found, {**failed, **refused}

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        return events.stream_events(self.observer.pods, stop)

    def check_setup(self) -> Iterator[SetupCheck]:
        """See `providers.abilities.ChecksSetup`."""
        from providers.kubernetes.setup_check import check_setup

        return check_setup(self.client, self.observer, self.options)

    def usage(self) -> Iterator[Usage]:
        from providers.kubernetes.interaction.usage import measure_all

        with api_errors():
            pods = self.observer.pods.look().objects
        where: dict[str, dict[str, str]] = {}
        for pod in pods.values():
            if isinstance(pod, OwnPod) and pod.node and pod.kernel.state == "running":
                where.setdefault(pod.node, {})[pod.uid] = pod.kernel.id
        return measure_all(self.client, where)

    def pod_of(self, kernel_id: str) -> PodRef:
        """Raises KernelNotFound, ProviderUnavailable."""
        return self.finder.ref(kernel_id)

    # making

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        ref = PodRef(self.options.namespace_of(ref_of(spec.labels.resource).project), spec.id)
        again = self.finder.remembers(spec.id) or self.observer.has_seen((ref.namespace, ref.name))
        self.finder.remember(ref)
        try:
            pod = create_pod(self.client, self.options, ref, spec, self.observer, fence, again=again)
        except BaseException:
            self._take_back(ref)
            raise
        self.observer.pods.record(pod)
        return observed(pod)

    def _take_back(self, ref: PodRef) -> None:
        """What was begun and not started goes; what cannot be cleared away now, the next attempt finds."""
        with contextlib.suppress(ProviderError):
            pod = self.finder.find(ref.name)
            if not pod["spec"].get("nodeName"):
                self.remove(ref.name)

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        ref = self.finder.ref(kernel_id)
        fence()
        with api_errors(kernel_id):
            about = {"annotations": {labels.LABELS: labels.to_annotation(spec.labels)}}
            pod = self.client.patch(ref.path, {"metadata": about})
        self.observer.pods.record(pod)
        return observed(pod)

    # nodes

    def ask_for_nodes(self, request: NodeRequest) -> None:
        """See `providers.abilities.AsksForNodes`."""
        self.node_requester.ask(request)

    def withdraw_request(self, asked: AskedNodes) -> None:
        self.node_requester.withdraw(asked)

    def requests_left(self, repo: str, cluster: str) -> Sequence[AskedNodes]:
        return self.node_requester.left(repo, cluster)

    # ending

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        pod = self.finder.find(kernel_id)
        if signal and not end.is_ended(pod):
            from providers.kubernetes.interaction.execute import send_signal

            send_signal(self.client, ref_of_pod(pod), signal)
            pod = end.wait_for_end(self.client, ref_of_pod(pod), pod, grace)
            if end.is_ended(pod):
                pod = end.note_stopped(self.client, ref_of_pod(pod))
        if not pod["spec"].get("nodeName"):
            self.remove(kernel_id)
            raise KernelNotFound(provider=NAME, kernel=kernel_id)
        found = end.stop_pod(self.client, ref_of_pod(pod), pod)
        self.observer.pods.record(found)
        return observed(found)

    def remove(self, kernel_id: str) -> None:
        try:
            pod = self.finder.find(kernel_id)
        except KernelNotFound:
            return self.sweep(kernel_id)
        ref = ref_of_pod(pod)
        self._forget_claims(end.remove_pod(self.client, ref, pod))
        self.observer.pods.forget((ref.namespace, ref.name), pod["metadata"]["uid"])
        self.finder.forget(kernel_id)

    def sweep(self, kernel_id: str) -> None:
        """Claims of a pod that is gone. See `providers.abilities.SweepsLeftovers`."""
        ref = self.finder.last_known(kernel_id)
        if ref is not None:
            self._forget_claims(end.remove_pod(self.client, ref, None))

    def _forget_claims(self, gone: Iterable[end.GoneClaim]) -> None:
        for claim in gone:
            self.observer.ledger.forget(claim)

    def close(self) -> None:
        self.observer.close()
        self.client.close()
