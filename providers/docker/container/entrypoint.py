"""What a container runs before its own command, where that is needed: the entry script and what it reads.
Pure.

The script is plain POSIX shell and needs nothing but a shell: it makes secrets known to the command, and in a
session of several containers waits until all are there, so that a command may count on its peers, and opens
the way by SSH where the image has it. Then it becomes the command: signals and exit codes are the command's.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

from providers.base import KernelSpec
from providers.docker.container import ssh_login

TARGET = "/run/bai"
"""Where a container finds its folder."""
_NOBODY = 65_533
OWNERS = ((0, 0), (_NOBODY, _NOBODY))
"""Of all files, and of private keys, which all users of a container may read: SSH refuses a key that is open
to others only when its owner uses it. Settings, on the other hand, it takes from root."""
_KEYS = ("ssh/key", "ssh/host_key")


def is_needed(spec: KernelSpec) -> bool:
    """Whether this kernel's command is started by the script."""
    return bool(spec.secret_env or spec.login)


def wrap_command(command: Sequence[str]) -> list[str]:
    """The container's entry point and command in one: `command` is the image's own entry point with what it
    is given."""
    return ["/bin/sh", f"{TARGET}/entry", *command]


def archive(spec: KernelSpec, owners: Sequence[tuple[int, int]] = OWNERS) -> bytes:
    """The folder as a tar: to be unpacked with owners and modes, where only the node's root looks in.
    `owners`: as the node knows them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content, mode in _folder_contents(spec):
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            entry.uid, entry.gid = owners[1 if name in _KEYS else 0]
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _folder_contents(spec: KernelSpec) -> Iterator[tuple[str, bytes | None, int]]:
    """Path, content (None: a folder) and mode."""
    for file in spec.files:
        yield file.name, file.content.encode(), 0o644
    if not is_needed(spec):
        return
    for name in ("entry", "login"):
        yield name, read_script(name), 0o755
    if spec.secret_env:
        yield "secrets", export_statements(spec.secret_env.items()).encode(), 0o644
    if spec.login is not None:
        yield "peers", "".join(f"{peer.name}\n" for peer in spec.login.peers).encode(), 0o644
        yield "hostfile", hostfile(spec).encode(), 0o644
        yield "ssh", None, 0o755
        for name, text in ssh_login.ssh_files(spec.login):
            yield f"ssh/{name}", text.encode(), 0o644


def read_script(name: str) -> bytes:
    """A shell script of this package."""
    return (files(__package__) / "scripts" / f"{name}.sh").read_bytes()


def export_statements(values: Iterable[tuple[str, str]]) -> str:
    """Shell code that sets and exports variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values)


def hostfile(spec: KernelSpec) -> str:
    """The session's kernels as launchers read them: mpirun, DeepSpeed."""
    slots = spec.login.slots if spec.login else {}
    return "".join(f"{name} slots={count}\n" for name, count in slots.items())
