"""cuFile's configuration for one kernel: the RDMA addresses through which storage reads into its GPUs.

Source: NVIDIA's "GPUDirect Storage configuration and benchmarking guide", `properties.rdma_dev_addr_list`;
cuFile itself takes the nearest of them for each GPU. A file replaces `/etc/cufile.json` as a whole, so there
is one only where a node's hardware names addresses, for kernels that share the node's network.
"""

from __future__ import annotations

import json

from planner.model.types import KernelPlacement
from schemas.hardware.model import Hardware, Nic

VARIABLE, NAME = "CUFILE_ENV_PATH_JSON", "cufile.json"


def cufile_settings(kernel_placement: KernelPlacement, hardware: Hardware) -> str:
    """The file's text; empty where nothing is known that cuFile could not find by itself."""
    if kernel_placement.network not in ("", "host") or not any(
        one.slot.startswith("cuda") for one in kernel_placement.devices
    ):
        return ""
    addresses = [address for nic in _near_first(kernel_placement, hardware) for address in nic.addresses]
    if not addresses:
        return ""
    properties = {"allow_compat_mode": True, "rdma_dev_addr_list": list(dict.fromkeys(addresses))}
    return json.dumps({"properties": properties}, indent=2) + "\n"


def _near_first(kernel_placement: KernelPlacement, hardware: Hardware) -> list[Nic]:
    """RDMA-capable NICs, those on a NUMA node of the kernel's GPUs before the others."""
    held = {grant.id for grant in kernel_placement.devices}
    gpus = [gpu for gpu in hardware.gpus if gpu.id in held or held & {one.id for one in gpu.mig_devices}]
    near = {gpu.numa_node for gpu in gpus if gpu.numa_node is not None}
    return sorted((nic for nic in hardware.nics if nic.rdma), key=lambda nic: nic.numa_node not in near)
