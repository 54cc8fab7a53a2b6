"""What the lab's stand-in for NVIDIA's DRA driver publishes: GPUs that this machine does not have, with the
names, attributes and capacity of the real driver (kubernetes-sigs/dra-driver-nvidia-gpu, deviceinfo.go)."""

from __future__ import annotations

import uuid
from typing import Any

DRIVER = "gpu.nvidia.com"
COUNTED = "nvidia.com/gpu"
"""What NVIDIA's device plugin calls them."""
H100 = "NVIDIA H100 80GB HBM3"
_SPACE = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


def gpu_uuid(node: str, minor: int) -> str:
    """Another one for each GPU of each node, and always the same."""
    return f"GPU-{uuid.uuid5(_SPACE, f'bai-lab/{node}/{minor}')}"


def devices(node: str, count: int, product: str = H100) -> list[dict[str, Any]]:
    """`count` of them: two behind each PCIe root complex, half of them on each of two NUMA nodes. `product`
    changes the name alone."""
    return [
        {
            "name": f"gpu-{minor}",
            "attributes": {**_attributes(node, minor, count), "productName": {"string": product}},
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for minor in range(count)
    ]


def _attributes(node: str, minor: int, count: int) -> dict[str, dict[str, Any]]:
    root = 0x10 * (minor // 2)
    strings = {
        "type": "gpu",
        "uuid": gpu_uuid(node, minor),
        "brand": "Nvidia",
        "architecture": "Hopper",
        "resource.kubernetes.io/pciBusID": f"0000:{root + 1 + minor % 2:02x}:00.0",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{root:02x}",
    }
    versions = {"cudaComputeCapability": "9.0.0", "driverVersion": "580.95.5", "cudaDriverVersion": "13.0.0"}
    return {
        **{name: {"string": value} for name, value in strings.items()},
        **{name: {"version": value} for name, value in versions.items()},
        "resource.kubernetes.io/numaNode": {"int": 2 * minor // count},
    }


def device_class() -> dict[str, Any]:
    """As the real driver installs it."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {
            "selectors": [{"cel": {"expression": expression}}],
            "extendedResourceName": "nvidia.com/gpu",
        },
    }
