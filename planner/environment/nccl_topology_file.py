"""NCCL's topology of what one kernel was given, where the machine's topology is known well enough."""

from __future__ import annotations

from planner.model.types import KernelPlacement, Placement
from schemas.hardware.exporters.nccl import DeviceSubset, export_nccl, export_problem
from schemas.hardware.model import Gpu, Hardware, Nic

VARIABLE, NAME = "NCCL_TOPO_FILE", "nccl-topology.xml"


def nccl_topology(kernel_placement: KernelPlacement, placement: Placement, hardware: Hardware) -> str:
    """The file's text; empty where NCCL has nothing to choose from, or knows better by looking itself.

    It is for whole NVIDIA GPUs that talk to each other, of one kernel or over assigned NICs to other nodes.
    Each one's way through the PCI tree must be known: what the file says of it, NCCL does not look up.
    """
    gpus = {gpu.id: gpu for gpu in hardware.gpus}
    held = [gpus.get(grant.id) for grant in kernel_placement.devices if grant.milli >= 1000]
    if len(held) < len(kernel_placement.devices) or not all(gpu and gpu.slot == "cuda" for gpu in held):
        return ""
    far = len({part.node for part in placement.kernels}) > 1 and bool(kernel_placement.nics)
    if len(held) < (1 if far else 2):
        return ""
    excerpt = DeviceSubset({gpu.id for gpu in held if gpu}, set(kernel_placement.nics))
    nics = [nic for nic in hardware.nics if nic.id in kernel_placement.nics]
    devices: list[Gpu | Nic] = [*(gpu for gpu in held if gpu), *nics]
    if any(not device.pcie_path for device in devices) or export_problem(hardware, excerpt):
        return ""
    return export_nccl(hardware, excerpt)
