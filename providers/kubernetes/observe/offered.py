"""What drivers offer of the nodes now. Pure.

A kubelet that starts anew deletes all ResourceSlices of its node (from Kubernetes 1.36 on at once), and each
driver publishes its own again when it has registered there: until then nothing of them can be given away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from providers.foreign_use import OfferedDevices
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.hardware import exact_cores, gpu_devices
from schemas.values.once_per_value import once_per_value

WITHDRAWN = (
    "not published by a DRA driver at the moment: a kubelet that starts anew withdraws all that its node "
    "offered, and drivers publish it again within a minute; where they do not, look at the driver's pod there"
)


MISCOUNTED = (
    "not allocatable at the moment, by the count of its device plugin, whichever of the node's GPUs that is: "
    "one that is not healthy, or a plugin that registers anew, as after a restart of the kubelet; `kubectl "
    "describe node` shows capacity and allocatable"
)


def with_counted(offered: OfferedDevices, counted: Mapping[str, frozenset[str]]) -> OfferedDevices:
    """And those that device plugins count (`CountedUse.offered`)."""
    if not counted:
        return offered
    both = {name: offered.devices.get(name, frozenset()) | ids for name, ids in counted.items()}
    return replace(offered, devices={**offered.devices, **both})


@once_per_value
def offered_devices(devices: DeviceIndex) -> OfferedDevices:
    """Exactly what hardware would have of each node (`hardware_of`)."""
    found, cores = {}, []
    for node in devices.nodes():
        here = devices.of(node)
        whole, parts = gpu_devices(here)
        found[node] = frozenset(
            (*(each.id for each in (*whole, *parts)), *(each.rdma for each in here if each.rdma))
        )
        if exact_cores([each for each in here if each.cpu is not None]):
            cores.append(node)
    return OfferedDevices(found, frozenset(cores), WITHDRAWN, MISCOUNTED)
