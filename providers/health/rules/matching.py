"""Which GPU of the facts is which of the records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from providers.health.facts import GpuState, MachineFacts
from providers.health.values import ExpectedGpu, ExpectedNode
from schemas.hardware.sysfs.pci import normalize_address


@dataclass(frozen=True, slots=True)
class MatchedGpu:
    """One GPU: `recorded`, found by the driver (`state`), or both. `id` is what placement knows it by."""

    id: str
    pci: str
    recorded: ExpectedGpu | None
    state: GpuState | None

    @property
    def index(self) -> int:
        """As nvidia-smi counts; as recorded where the driver does not tell."""
        if self.state is not None and self.state.index >= 0:
            return self.state.index
        return self.recorded.index if self.recorded is not None else 0


def normalise_address(text: str) -> str:
    """A PCI address as sysfs writes it; empty for what is none."""
    return normalize_address(text) or ""


def normalise_slot(text: str) -> str:
    """The address that a line of the kernel's log has (`0000:41:00`), as sysfs writes it; without the
    function."""
    return normalise_address(f"{text}.0").rpartition(".")[0] or text


def match_gpus(facts: MachineFacts, expected: ExpectedNode) -> tuple[MatchedGpu, ...]:
    """Recorded GPUs in their order, then those that nobody recorded."""
    return tuple(_match(facts, expected))


def _match(facts: MachineFacts, expected: ExpectedNode) -> Iterator[MatchedGpu]:
    left = list(facts.gpus.devices)
    for gpu in expected.gpus:
        pci = normalise_address(gpu.pci) or normalise_address(gpu.id)
        # The UUID goes before the slot: a GPU that was moved is still that GPU.
        same = [one for one in left if one.uuid and one.uuid == gpu.id]
        same += [one for one in left if pci and normalise_address(one.pci) == pci]
        state = same[0] if same else None
        if state is not None:
            left.remove(state)
        yield MatchedGpu(gpu.id, pci or (normalise_address(state.pci) if state else ""), gpu, state)
    for state in left:
        pci = normalise_address(state.pci)
        yield MatchedGpu(state.uuid or pci or f"gpu{state.index}", pci, None, state)
