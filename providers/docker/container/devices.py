"""Devices of a kernel as its engine and node know them: GPUs by whichever way the engine has, RDMA devices of
the mapping's NICs and of no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from providers.base import KernelSpec
from providers.docker.container.edits import ContainerEdits
from providers.docker.engine.engine import Engine
from providers.docker.engine.facts import EngineFacts
from schemas.problems.errors.kernel import KernelRefused
from schemas.values.linux_users import LARGEST_ID
from schemas.values.naturals import parse_natural

CDI_KIND = "nvidia.com/gpu"
UNLIMITED = (-1, -1)
FIND_RDMA_NODES = r"""
for nic in $NICS; do
    found=
    for verbs in "/sys/class/infiniband/$nic/device/infiniband_verbs/"*; do
        [ -e "$verbs" ] && found=yes && echo "/dev/infiniband/${verbs##*/}"
    done
    [ "$found" ] || echo "!$nic is not an RDMA device of this node"
done
for pci in $GPUS; do
    found=
    for node in "/sys/bus/pci/devices/$pci/drm/"card* "/sys/bus/pci/devices/$pci/drm/"renderD*; do
        [ -e "$node" ] && found=yes && echo "/dev/dri/${node##*/}"
    done
    [ "$found" ] || echo "!$pci is not a GPU with a driver on this node"
    [ "$(cat "/sys/bus/pci/devices/$pci/vendor" 2>/dev/null)" != 0x1002 ] || echo /dev/kfd
done
"""
"""Prints device nodes, and what is wrong after an exclamation mark."""
GROUPS = """
for node in "$@"; do
    case $(stat -c %a "$node" 2>/dev/null) in *[0-7][2367][0145]) stat -c %g "$node" ;; esac
done
"""
"""Prints the groups that may use nodes which others may not: `render`, for one."""

NO_DEVICES = {
    "AMD_VISIBLE_DEVICES": "none", "ASCEND_VISIBLE_DEVICES": "", "HABANA_VISIBLE_DEVICES": "void",
    "HABANA_VISIBLE_MODULES": "", "NVIDIA_GDRCOPY": "", "NVIDIA_GDS": "", "NVIDIA_IMEX_CHANNELS": "",
    "NVIDIA_MIG_CONFIG_DEVICES": "", "NVIDIA_MIG_MONITOR_DEVICES": "", "NVIDIA_MOFED": "",
    "NVIDIA_NVSWITCH": "",
}  # fmt: skip
"""Variables by which vendors' runtimes give a container devices that it names itself → what names none.
NVIDIA_VISIBLE_DEVICES is set by the plan, always."""


def prepare(engine: Engine, spec: KernelSpec) -> ContainerEdits:
    """All of them. Raises KernelRefused, ProviderUnavailable."""
    nvidia = tuple(device for device in spec.devices if device.startswith(("GPU-", "MIG-")))
    pci = tuple(device for device in spec.devices if _is_pci(device))
    unknown = set(spec.devices) - {*nvidia, *pci} - {d for d in spec.devices if d.startswith("/dev/")}
    if unknown:
        why = f"no way is known to give it device {sorted(unknown)[0]}"
        raise KernelRefused(provider="docker", kernel=spec.id, why=why)
    found = ContainerEdits()
    if nvidia:
        way: str = engine.options.gpus or "auto"
        way = choose_gpu_access(engine.facts, _cdi_lookup(engine)) if way == "auto" else way
        found += nvidia_edits(nvidia, way, engine.facts, spec.id)
    if pci or spec.nics:
        found += _device_nodes(engine, spec, pci)
    return found


def withhold_devices(spec: KernelSpec, image: Mapping[str, Any]) -> ContainerEdits:
    """No other devices, whatever the document or the image asks a runtime for. `image`: as inspected."""
    named = {line.partition("=")[0] for line in (image.get("Config") or {}).get("Env") or ()}
    return ContainerEdits(
        firm={name: none for name, none in NO_DEVICES.items() if name in named | spec.env.keys()}
    )


def _is_pci(device: str) -> bool:
    """`dddd:bb:dd.f`, the id of a device without one of its own."""
    head, dot, function = device.rpartition(".")
    return bool(dot) and function.isdecimal() and head.count(":") == 2


def nvidia_edits(ids: tuple[str, ...], way: str, facts: EngineFacts, kernel: str) -> ContainerEdits:
    """GPUs and MIG devices by their UUIDs. Raises KernelRefused."""
    names = [f"{CDI_KIND}={device}" for device in ids]
    if way == "cdi":
        known = facts.cdi_devices
        missing = [] if known is None else [name for name in names if name not in known]
        if missing:
            raise KernelRefused(
                provider="docker",
                kernel=kernel,
                why=f"the engine knows no CDI device {missing[0]}",
                hint="nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml",
            )
        return ContainerEdits(requests=({"Driver": "cdi", "DeviceIDs": names},))
    if way == "runtime":
        env = {"NVIDIA_VISIBLE_DEVICES": ",".join(ids), "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
        return ContainerEdits(env=env, runtime="nvidia")
    request = {"Driver": "nvidia", "DeviceIDs": list(ids), "Capabilities": [["gpu", "compute", "utility"]]}
    return ContainerEdits(requests=(request,))


def choose_gpu_access(facts: EngineFacts, specified: Callable[[], bool]) -> str:
    """Through CDI where the engine offers GPUs so, the nvidia runtime where it is registered, else the way of
    `docker run --gpus`. `specified`: whether CDI files name any; asked where the engine (25 to 28.1) does
    not tell."""
    if facts.cdi_devices is None:
        told = bool(facts.cdi_folders) and specified()
    else:
        told = any(name.startswith(f"{CDI_KIND}=") for name in facts.cdi_devices)
    if told:
        return "cdi"
    return "runtime" if "nvidia" in facts.runtimes else "device-request"


def _cdi_lookup(engine: Engine) -> Callable[[], bool]:
    def ask() -> bool:
        return engine.machine.run(["grep", "-rqs", CDI_KIND, *engine.facts.cdi_folders]).code == 0

    return ask


def _device_nodes(engine: Engine, spec: KernelSpec, pci: tuple[str, ...]) -> ContainerEdits:
    given = {"NICS": " ".join(spec.nics), "GPUS": " ".join(pci)}
    done = engine.machine.run(["sh", "-c", FIND_RDMA_NODES], env=given)
    lines = done.out.decode(errors="replace").split("\n")
    wrong = [line[1:] for line in lines if line.startswith("!")]
    if wrong:
        why = f"node {engine.node}: {wrong[0]}"
        raise KernelRefused(provider="docker", kernel=spec.id, why=why)
    nodes = tuple(line for line in lines if line)
    said = engine.machine.run(["sh", "-c", GROUPS, "sh", *nodes]).out.decode(errors="replace").split()
    groups = tuple(sorted({number for word in said if (number := parse_natural(word, LARGEST_ID))}))
    if not spec.nics:
        return ContainerEdits(devices=nodes, groups=groups)
    # Registered memory cannot be swapped: it is locked, as much as an application asks for.
    return ContainerEdits(
        devices=(*nodes, "/dev/infiniband/rdma_cm"),
        groups=groups,
        ulimits={"memlock": UNLIMITED},
        capabilities=("IPC_LOCK",),
    )
