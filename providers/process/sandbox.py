"""What a kernel sees: with bubblewrap its own files only, without it the machine's.

In a sandbox the system's folders are read-only, `/home/work` is the kernel's scratch folder, `/tmp`, `/run`
and `/dev/shm` are private, processes of others are invisible, and of the device nodes only the harmless ones
and those asked for are there. The network is shared with the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from providers.base import KernelSpec
from providers.gpu.shares import Bound
from providers.process.mounts import GIVEN, HOME, inside

SYSTEM = ("/usr", "/etc", "/opt", "/sys", "/var/lib/ca-certificates")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on merged systems, folders on others."""
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""What root keeps inside: what container engines leave it, less the making of device nodes."""
NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session")


@cache
def problem() -> str:
    """Why there can be no sandbox on this machine; empty when there can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        trial = subprocess.run(
            [program, *_system(), *NAMESPACES, *_power(), "--proc", "/proc", "--dev", "/dev", "--", "true"],
            capture_output=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    said = trial.stderr.decode(errors="replace").strip().splitlines()
    if trial.returncode == 0:
        return ""
    return f"bubblewrap does not work here: {said[-1] if said else f'exit code {trial.returncode}'}"


def _system() -> list[str]:
    """Arguments that show the system's folders, read-only."""
    words: list[str] = []
    for path in (*SYSTEM, *LINKS):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return words


def wrap(
    spec: KernelSpec,
    scratch: Path,
    command: list[str],
    given: Path | None = None,
    bound: Iterable[Bound] = (),
) -> list[str]:
    """The command inside its sandbox. Every path stands behind an option that takes it as a value.

    No shell is involved. `given`: a folder to be seen, read-only, at `GIVEN`; `bound`: others.
    """
    words = [shutil.which("bwrap") or "bwrap", *NAMESPACES, *_power(), *_system()]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for device in device_nodes(spec.devices):
        words += ["--dev-bind", device, device]
    words += ["--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"]
    words += [*_resolver(), *(("--size", str(spec.shm)) if spec.shm else ()), "--tmpfs", "/dev/shm"]
    words += ["--ro-bind", str(given), str(GIVEN)] if given else []
    for each in bound:
        words += ["--ro-bind" if each.read_only else "--bind", each.source, each.target]
    words += ["--bind", str(scratch), str(HOME)]
    for mount in spec.mounts:
        option = "--ro-bind" if mount.read_only else "--bind"
        words += [option, mount.source, str(HOME / inside(spec.id, mount.target))]
    words += ["--chdir", str(HOME / spec.workdir)]
    return [*words, "--", *command]


def _power() -> list[str]:
    """Root could undo the sandbox from inside; other users have no power to give up."""
    if os.geteuid() != 0:
        return []
    words = ["--cap-drop", "ALL"]
    for name in CAPABILITIES:
        words += ["--cap-add", f"CAP_{name}"]
    return words


def _resolver() -> list[str]:
    """The file that /etc/resolv.conf points to, when that lies in /run."""
    real = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind", real, real] if real.startswith("/run/") and os.path.isfile(real) else []


def device_nodes(devices: tuple[str, ...]) -> list[str]:
    """Device nodes for the devices of a spec.

    Paths under /dev as they are, NVIDIA ids with the control nodes they need.
    """
    nodes = [device for device in devices if _is_node(device)]
    vendor = [device for device in devices if not device.startswith("/")]
    if vendor:
        minors = _nvidia_minors()
        nodes += [f"/dev/nvidia{minors[device]}" for device in vendor if device in minors]
        control = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
        nodes += [f"/dev/{name}" for name in control]
    return [node for node in dict.fromkeys(nodes) if os.path.exists(node)]


def _is_node(device: str) -> bool:
    return device.startswith("/dev/") and ".." not in device.split("/")


def _nvidia_minors() -> dict[str, str]:
    """GPU UUID and PCI address → number of its device node, as the driver tells."""
    found: dict[str, str] = {}
    folder = Path("/proc/driver/nvidia/gpus")
    for information in folder.glob("*/information") if folder.is_dir() else ():
        pairs = (line.partition(":") for line in information.read_text(errors="replace").splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        minor = fields.get("Device Minor", "")
        found[fields.get("GPU UUID", "")] = minor
        found[information.parent.name] = minor
    return found
