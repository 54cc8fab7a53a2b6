"""What the lab's stand-in for kubernetes-sigs/dra-driver-cpu publishes, as that does in its individual mode:
each logical CPU as a device, with the real driver's names and attributes. The CPUs are this machine's; which
core, cache and NUMA node they are of is invented."""

from __future__ import annotations

from typing import Any

DRIVER = "dra.cpu"


def devices(cpus: range, *, numa_nodes: int = 2, threads: int = 1) -> list[dict[str, Any]]:
    """One socket for each NUMA node, one cache for each socket, threads of a core numbered as Linux does: the
    first ones of all cores, then the second ones."""
    cores = len(cpus) // threads
    return [_device(cpu, (cpu - cpus.start) % cores, cores, numa_nodes, threads) for cpu in cpus]


def _device(cpu: int, core: int, cores: int, numa_nodes: int, threads: int) -> dict[str, Any]:
    place = core * numa_nodes // cores
    numbers = {"cpuID": cpu, "coreID": core, "cacheL3ID": place, "socketID": place}
    return {
        "name": f"cpudev{cpu:03}",
        "attributes": {
            **{f"{DRIVER}/{name}": {"int": number} for name, number in numbers.items()},
            f"{DRIVER}/coreType": {"string": "standard"},
            f"{DRIVER}/smtEnabled": {"bool": threads > 1},
            "resource.kubernetes.io/numaNode": {"int": place},
        },
    }


def device_class() -> dict[str, Any]:
    """As the real driver installs it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
    }
