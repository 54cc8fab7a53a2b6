"""What nodes have, and do not offer now. Pure.

Hardware is as it was last probed; drivers may withdraw all of a node's devices for a while, as when its
kubelet begins anew. What runs with them goes on; nobody else gets them, or is placed as if they were there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.model.types import NodeInfo
from providers.foreign_use import OfferedDevices
from reconciler.values.unfit_gpus import known_devices
from schemas.hardware.model import Hardware


def without_withdrawn_devices(info: NodeInfo, offered: OfferedDevices | None) -> NodeInfo:
    """The node without the GPUs and MIG devices that it does not offer now."""
    gone = _withdrawn(info.name, info.hardware, offered)
    if offered is None or not gone:
        return info
    ailing = {**{name: offered.why_not(name) for name in sorted(gone)}, **info.ailing}
    return replace(info, unhealthy=info.unhealthy | gone, ailing=ailing)


def withdrawn_reason(name: str, probed: Hardware | None, offered: OfferedDevices | None) -> str:
    """Why the node takes nothing new: that its cores or NICs, as probed, are not offered now; empty when they
    are. Whoever starts without exact ones does not get them later."""
    if offered is None or probed is None:
        return ""
    if probed.knows_cores and name not in offered.cores:
        return f"its cores are {offered.why}"
    nics = {nic.id for nic in probed.nics} & _withdrawn(name, probed, offered)
    return f"its {', '.join(sorted(nics))} {'is' if len(nics) == 1 else 'are'} {offered.why}" if nics else ""


def newly_offered(hardware: Mapping[str, Hardware], offered: OfferedDevices | None) -> frozenset[str]:
    """Nodes that offer all they are known to have, and more: devices that came after they were probed, or
    came back."""
    if offered is None:
        return frozenset()
    return frozenset(
        name
        for name, probed in hardware.items()
        if (_offers_more(name, probed, offered) and not _withdrawn(name, probed, offered))
        and not (probed.knows_cores and name not in offered.cores)
    )


def _offers_more(name: str, probed: Hardware, offered: OfferedDevices) -> bool:
    devices = offered.devices.get(name, frozenset()) - known_devices(probed)
    return bool(devices) or (name in offered.cores and not probed.knows_cores)


def _withdrawn(name: str, hardware: Hardware, offered: OfferedDevices | None) -> frozenset[str]:
    if offered is None:
        return frozenset()
    return known_devices(hardware) - offered.devices.get(name, frozenset())
