"""Health as values with names and labels, in the manner of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from providers.health.facts import GpuState
from providers.health.rules.matching import match_gpus, normalise_slot
from providers.health.values import NodeHealth


@dataclass(frozen=True, slots=True)
class Metric:
    """One value now. Names and units do not change; all are gauges."""

    name: str
    labels: Mapping[str, str]
    value: float


HELP = {
    "bai_node_health_known": "1 when the node could be asked for its health",
    "bai_node_healthy": "1 when nothing critical was found on the node",
    "bai_node_finding": "1 for each finding that is not `ok`; labels code, severity, device",
    "bai_gpu_usable": "1 when the GPU may get new sessions",
    "bai_gpu_ecc_uncorrected": "uncorrected ECC errors since the driver was loaded",
    "bai_gpu_ecc_uncorrected_lifetime": "uncorrected ECC errors in the GPU's life",
    "bai_gpu_ecc_corrected": "corrected ECC errors since the driver was loaded",
    "bai_gpu_remapped_rows_uncorrected": "rows remapped for uncorrected errors",
    "bai_gpu_pcie_width": "lanes of its PCIe link",
    "bai_gpu_pcie_replays": "repeated packets of its PCIe link",
    "bai_gpu_nvlinks_up": "NVLinks that are up",
    "bai_gpu_temperature_celsius": "temperature",
    "bai_gpu_power_watts": "power drawn",
    "bai_gpu_sm_clock_megahertz": "clock of its multiprocessors",
    "bai_gpu_xid_events": "Xid errors since the driver was loaded; label xid",
    "bai_node_disk_free_bytes": "room left on a file system; label path",
    "bai_node_memory_corrected": "corrected memory errors since boot; label controller",
    "bai_node_memory_uncorrected": "uncorrected memory errors since boot; label controller",
    "bai_node_rdma_up": "1 when a port of the RDMA device is active; label device",
}
"""Every metric there is, with what it means."""
_OF_GPU = {
    "bai_gpu_ecc_uncorrected": "uncorrected",
    "bai_gpu_ecc_uncorrected_lifetime": "uncorrected_ever",
    "bai_gpu_ecc_corrected": "corrected",
    "bai_gpu_remapped_rows_uncorrected": "rows_uncorrected",
    "bai_gpu_pcie_width": "width",
    "bai_gpu_pcie_replays": "replays",
    "bai_gpu_nvlinks_up": "links",
    "bai_gpu_temperature_celsius": "temperature",
    "bai_gpu_power_watts": "watts",
    "bai_gpu_sm_clock_megahertz": "clock",
}


def health_metrics(nodes: Iterable[NodeHealth]) -> Iterator[Metric]:
    """All values of these nodes; what is not known is left out."""
    for health in nodes:
        yield from _node(health)
        if health.facts is not None:
            yield from _gpus(health)
            yield from _machine(health)


def _node(health: NodeHealth) -> Iterator[Metric]:
    node = {"node": health.node}
    yield Metric("bai_node_health_known", node, float(health.facts is not None))
    if health.facts is None:
        return
    yield Metric("bai_node_healthy", node, float(health.severity != "critical"))
    for one in health.findings:
        if one.severity != "ok":
            labels = {**node, "code": one.code, "severity": one.severity, "device": one.device}
            yield Metric("bai_node_finding", labels, 1.0)


def _gpus(health: NodeHealth) -> Iterator[Metric]:
    assert health.facts is not None
    for gpu in match_gpus(health.facts, health.expected):
        labels = {"node": health.node, "gpu": str(gpu.index), "uuid": gpu.id}
        yield Metric("bai_gpu_usable", labels, float(gpu.id not in health.unfit))
        yield from _state(gpu.state, labels)
        for xid in health.facts.log.xids:
            if gpu.pci and gpu.pci.startswith(normalise_slot(xid.pci)):
                yield Metric("bai_gpu_xid_events", {**labels, "xid": str(xid.xid)}, float(xid.count))


def _state(state: GpuState | None, labels: Mapping[str, str]) -> Iterator[Metric]:
    for name, field in _OF_GPU.items():
        value = getattr(state, field, None)
        if value is not None:
            yield Metric(name, labels, float(value))


def _machine(health: NodeHealth) -> Iterator[Metric]:
    assert health.facts is not None
    for disk in health.facts.disks:
        labels = {"node": health.node, "path": disk.path}
        yield Metric("bai_node_disk_free_bytes", labels, float(disk.free))
    for one in health.facts.memory:
        labels = {"node": health.node, "controller": one.controller}
        yield Metric("bai_node_memory_corrected", labels, float(one.corrected))
        yield Metric("bai_node_memory_uncorrected", labels, float(one.uncorrected))
    for device in dict.fromkeys(port.device for port in health.facts.rdma):
        up = any(port.state == "ACTIVE" for port in health.facts.rdma if port.device == device)
        yield Metric("bai_node_rdma_up", {"node": health.node, "device": device}, float(up))
