"""What a kernel sees: with bubblewrap its own files only, without it the machine's.

In a sandbox the system's folders are read-only, `/home/work` is the kernel's scratch folder, `/tmp`, `/run`
and `/dev/shm` are private, processes of others are invisible, and of the device nodes only the harmless ones
and those asked for are there. Settings of the machine in `/proc` can be read and not written. The network is
shared with the machine. Who it runs as: `sandbox_init`, `user_switch`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from providers import masked_paths
from providers.process.sandbox import etc, runtime_files, seccomp
from providers.process.sandbox.mounts import GIVEN, HOME, path_inside
from schemas.problems.errors.provider import ProviderUnavailable

if TYPE_CHECKING:
    from providers.base import KernelSpec, Mount
    from providers.gpu.shares import BindMount
    from providers.process.sandbox.sandbox_init import Source
    from providers.process.sandbox.user_switch import User

SYSTEM = ("/usr", "/opt", "/sys", "/var/lib/ca-certificates")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr on merged systems, folders on others."""
ACCELERATORS = ("/dev/accel", "/dev/dri/", "/dev/infiniband/", "/dev/kfd", "/dev/nvidia")
"""Device nodes whose group a session that has them joins."""
_MIG = "/dev/nvidia-caps"
"""The driver's folder of nodes that open MIG devices."""
NOBODY = 65534
"""A user who may do nothing that others may not."""
TRIAL_SECONDS = 120.0
_PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""What a machine can be short of for a moment."""
NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--new-session",
)


@cache
def sandbox_problem() -> str:
    """Why there can be no sandbox on this machine; empty when there can. Root tries as another user, which is
    what sessions are. Raises ProviderUnavailable where a machine that is short of something just now cannot
    tell: no session runs without walls for that."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        trial = _try_sandbox(program)
    except subprocess.TimeoutExpired:
        raise _not_known(f"it has not started within {TRIAL_SECONDS:g} s") from None
    except OSError as error:
        if error.errno in _PASSING:
            raise _not_known(str(error)) from error
        return f"bubblewrap does not start: {error}"
    said = trial.stderr.decode(errors="replace").strip().splitlines()
    if trial.returncode == 0:
        return ""
    why = said[-1] if said else f"exit code {trial.returncode}"
    if why.endswith(tuple(map(os.strerror, _PASSING))):
        raise _not_known(why)
    return f"bubblewrap does not work here for a user other than root: {why}{_remedy(why)}"


def _try_sandbox(program: str) -> subprocess.CompletedProcess[bytes]:
    master = os.geteuid() == 0
    return subprocess.run(
        [program, *NAMESPACES, *_system_arguments(), "--clearenv", "--", "/bin/true"],
        capture_output=True,
        timeout=TRIAL_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "LC_ALL": "C"},
        user=NOBODY if master else None,
        group=NOBODY if master else None,
        extra_groups=[] if master else None,
    )


def _not_known(why: str) -> ProviderUnavailable:
    return ProviderUnavailable(
        provider="process",
        why=f"whether bubblewrap works here is not known: {why}",
        hint="try again when the machine has less to do",
    )


def sandbox_cautions(root: Path) -> tuple[str, ...]:
    """What is weaker in it, for kernels of this root, than it could be."""
    why = seccomp.filter_problem(root)
    return (f"sessions run without a filter of system calls: {why}",) if why else ()


def _remedy(why: str) -> str:
    """Ubuntu since 23.10 lets only programs with a profile make user namespaces."""
    if "uid map" in why or "namespace" in why:
        return " (user namespaces are forbidden: docs/process-provider.md says how to allow bubblewrap's)"
    return ""


def _system_arguments() -> list[str]:
    """Arguments that show the system's folders, read-only."""
    words: list[str] = []
    for path in (*SYSTEM, *LINKS):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return [*words, *_proc_arguments(), "--dev", "/dev", *_mask_arguments()]


def _proc_arguments() -> list[str]:
    """Processes of the sandbox, and no way to change the machine; bubblewrap leaves that to whoever may."""
    words = ["--proc", "/proc"]
    for path in masked_paths.READ_ONLY:
        words += ["--ro-bind-try", path, path]
    return words


def _mask_arguments() -> list[str]:
    """Files without content and folders without entries in place of what is hidden."""
    words: list[str] = []
    for path in masked_paths.MASKED:
        if os.path.isdir(path):
            words += ["--tmpfs", path, "--remount-ro", path]
        elif os.path.exists(path):
            words += ["--ro-bind", "/dev/null", path]
    return words


@cache
def can_mount_volumes() -> bool:
    """Whether volumes can be mounted: by root, or by a bubblewrap that takes opened folders."""
    program = shutil.which("bwrap")
    if program is None or os.geteuid() == 0:
        return program is not None
    try:
        said = subprocess.run([program, "--help"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--ro-bind-fd" in said.stdout + said.stderr


@dataclass(frozen=True, slots=True)
class BubblewrapCommand:
    """bubblewrap's arguments before and after those that show the `sources` (`sandbox_init.Box`)."""

    before: list[str]
    sources: list[Source]
    after: list[str]


def wrap_command(
    spec: KernelSpec,
    kernel: Path,
    command: list[str],
    user: User | None,
    bound: Iterable[BindMount] = (),
    more: Iterable[str] = (),
) -> BubblewrapCommand:
    """The command inside its sandbox. Every path stands behind an option that takes it as a value.

    No shell is involved. `kernel`: its folder; `user`: who it is, None for whom we are; `bound`: what else it
    sees; `more`: further names of the machine's /etc, which is made below the root. Raises OSError.
    """
    uid, gid, groups = (user["uid"], user["gid"], user["groups"]) if user else (os.getuid(), os.getgid(), [])
    found = etc.prepare_etc(kernel.parent.parent, uid, gid, groups, more)
    words = [shutil.which("bwrap") or "bwrap", *NAMESPACES, *_system_arguments()]
    for device in device_nodes(spec.devices):
        words += ["--dev-bind", device, device]
    words += ["--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"]
    words += [*(("--size", str(spec.shm)) if spec.shm else ()), "--tmpfs", "/dev/shm"]
    sources = [_own_source(found.folder, etc.TOP)]
    if folder := runtime_files.files_folder(kernel, spec):
        sources.append(_own_source(folder, str(GIVEN)))
    sources += [_own_source(Path(one.source), one.target, read_only=one.read_only) for one in bound]
    sources.append(_own_source(kernel / "scratch", str(HOME), read_only=False))
    sources += [_volume_source(spec.id, mount) for mount in spec.mounts]
    rest = [*found.words, "--remount-ro", "/", "--chdir", str(HOME / spec.workdir), "--", *command]
    return BubblewrapCommand(words, sources, rest)


def _own_source(path: Path, target: str, *, read_only: bool = True) -> Source:
    return {"root": str(path), "below": "", "target": target, "read_only": read_only}


def _volume_source(kernel_id: str, mount: Mount) -> Source:
    root, below = mount.beneath
    target = str(HOME / path_inside(kernel_id, mount.target))
    return {"root": root, "below": below, "target": target, "read_only": mount.read_only}


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
    return [node for node in dict.fromkeys(nodes) if _may_be_shown(node)]


def device_groups(devices: tuple[str, ...]) -> list[int]:
    """Linux groups that may use what accelerators and network cards among them others may not (`render`)."""
    groups = set()
    for node in device_nodes(devices):
        status = os.stat(node)
        shared = status.st_mode & (stat.S_IRGRP | stat.S_IWGRP) and not status.st_mode & stat.S_IWOTH
        if shared and status.st_gid and node.startswith(ACCELERATORS):
            groups.add(status.st_gid)
    return sorted(groups)


def _may_be_shown(path: str) -> bool:
    """Whether it is there, and no disk, nor a folder where disks could be; the driver's has those of MIG."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or (path == _MIG and stat.S_ISDIR(mode))


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
