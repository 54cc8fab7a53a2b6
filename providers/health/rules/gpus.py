"""Whether the GPUs are all there, linked as they were, and run as they should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from providers.health.codes import CODES, Finding
from providers.health.facts import GpuState, MachineFacts
from providers.health.rules.matching import MatchedGpu
from providers.health.values import ExpectedNode

_OUR_DRIVERS = ("nvidia", "")
_WORDS = {
    "hw-slowdown": "hardware slowdown",
    "sw-thermal": "heat",
    "hw-thermal": "heat (hardware)",
    "hw-power-brake": "power brake",
}


def gpu_findings(
    facts: MachineFacts, expected: ExpectedNode, here: Sequence[MatchedGpu]
) -> Iterator[Finding]:
    for gpu in here:
        yield from _presence(facts, expected, gpu)
        if gpu.state is not None and not gpu.state.problem:
            yield from _links(gpu, gpu.state, switched=_has_switches(facts, expected))
            yield from _running(gpu, gpu.state, expected)


def _has_switches(facts: MachineFacts, expected: ExpectedNode) -> bool:
    return bool(expected.switches) or any(device.what == "switch" for device in facts.pci)


def _presence(facts: MachineFacts, expected: ExpectedNode, gpu: MatchedGpu) -> Iterator[Finding]:
    on_bus = next((one for one in facts.pci if one.what == "gpu" and one.pci == gpu.pci), None)
    if gpu.state is not None and gpu.state.problem:
        yield CODES["gpu-lost"].found(gpu.id, why=gpu.state.problem)
    elif on_bus is not None and on_bus.gone:
        yield CODES["gpu-lost"].found(gpu.id, why="it has fallen off the bus")
    elif gpu.recorded is None:
        if expected.gpus:
            yield CODES["gpu-unrecorded"].found(gpu.id, pci=gpu.pci or gpu.id)
    elif gpu.state is None:
        yield from _absent(facts, gpu, driver=on_bus.driver if on_bus else None)


def _absent(facts: MachineFacts, gpu: MatchedGpu, driver: str | None) -> Iterator[Finding]:
    """A recorded GPU that the driver does not list; where the driver lists none, its own findings say why.
    `driver`: who has it on the bus, None when it is not there."""
    if driver is None and (facts.pci or facts.gpus.devices):
        yield CODES["gpu-missing"].found(gpu.id)
    elif driver is not None and driver not in _OUR_DRIVERS:
        yield CODES["gpu-unbound"].found(gpu.id, driver=f"{driver} has")
    elif driver is not None and facts.gpus.devices:
        yield CODES["gpu-unbound"].found(gpu.id, driver="it is refused")


def _links(gpu: MatchedGpu, state: GpuState, *, switched: bool) -> Iterator[Finding]:
    recorded = gpu.recorded.links if gpu.recorded else 0
    # Who divides a GPU by MIG takes its links down.
    if recorded and state.links is not None and state.links < recorded and not state.mig:
        yield CODES["gpu-nvlink-down"].found(gpu.id, up=state.links, recorded=recorded)
    if switched and not state.mig and state.fabric not in ("", "completed"):
        yield CODES["gpu-fabric"].found(gpu.id, state=state.fabric)
    if state.width and state.width_most and state.width < state.width_most:
        yield CODES["gpu-pcie-width"].found(gpu.id, width=state.width, most=state.width_most)
    busy = state.performance == 0  # an idle link goes to sleep
    if busy and state.speed and state.speed_most and state.speed < state.speed_most:
        yield CODES["gpu-pcie-speed"].found(gpu.id, speed=state.speed, most=state.speed_most)


def _running(gpu: MatchedGpu, state: GpuState, expected: ExpectedNode) -> Iterator[Finding]:
    slows = state.temperature_slows
    if state.temperature is not None and slows and state.temperature >= slows:
        yield CODES["gpu-hot"].found(gpu.id, temperature=state.temperature, slows=slows)
    if state.slowed:
        why = " and ".join(dict.fromkeys(_WORDS.get(one, one) for one in state.slowed))
        yield CODES["gpu-slowed"].found(gpu.id, why=why)
    if state.persistence is False and expected.persistence:
        yield CODES["gpu-persistence-off"].found(gpu.id)
    if state.mig is not None and state.mig_pending is not None and state.mig != state.mig_pending:
        become = "on" if state.mig_pending else "off"
        yield CODES["gpu-mig-pending"].found(gpu.id, become=become, index=gpu.index)
