"""The `/etc` of a sandbox: what programs need of the machine's, and users of its own. Nothing else of it is
shown, and nothing that not everybody may read.

It is a folder with copies of plain files, over which folders of the machine are mounted: bubblewrap reads the
list of all mounts anew for each thing that it mounts. Sessions of one user share it while nothing changes.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from providers import accounts
from providers.process.linux import procfs
from providers.process.sandbox.mounts import HOME

SHOWN_NAMES = (
    "OpenCL",
    "alternatives",
    "bash.bashrc",
    "bashrc",
    "crypto-policies",
    "cufile.json",
    "debian_version",
    "egl",
    "fonts",
    "gai.conf",
    "glvnd",
    "host.conf",
    "hosts",
    "inputrc",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "libibverbs.d",
    "locale.alias",
    "localtime",
    "lsb-release",
    "mime.types",
    "nsswitch.conf",
    "openmpi*",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "profile.d",
    "protocols",
    "python*",
    "rdma",
    "redhat-release",
    "resolv.conf",
    "rocm*",
    "services",
    "ssh/ssh_config",
    "ssh/ssh_config.d",
    "ssh/ssh_known_hosts",
    "ssl/certs",
    "ssl/openssl.cnf",
    "system-release",
    "terminfo",
    "ucx",
    "vulkan",
    "xdg",
)
"""Names and patterns below /etc; what is not there is left out. Of certificates, no private keys."""
USERS = accounts.FILES
"""Made for each kernel."""
TOP = "/etc"
LARGEST = 2**20
"""Bytes of a file that is copied; larger ones are mounted."""


def shown_entries(more: Iterable[str] = ()) -> dict[str, str]:
    """Name below /etc → what is to be seen there, a file or folder; none lies in another. `more`: further
    names.

    A link shows what it leads to: `/run`, where resolv.conf often is, is not the machine's in there.
    """
    there = sorted(os.listdir(TOP))
    found: dict[str, str] = {}
    passed = {"/"}
    for name in (*SHOWN_NAMES, *more):
        first, _, below = name.partition("/")
        for one in fnmatch.filter(there, first) if "*" in first else (first,):
            path = os.path.join(one, below).rstrip("/")
            source = os.path.realpath(os.path.join(TOP, path))
            if path not in USERS and _is_public(source, passed):
                found[path] = source
    inner = {path for path in found if any(str(above) in found for above in PurePath(path).parents)}
    return {path: source for path, source in found.items() if path not in inner}


def _is_public(path: str, passed: set[str]) -> bool:
    """Whether everybody may read it and pass the folders above it; `passed`: those that are known."""
    try:
        if not os.stat(path).st_mode & stat.S_IROTH:
            return False
        while (path := os.path.dirname(path)) not in passed:
            if not os.stat(path).st_mode & stat.S_IXOTH:
                return False
            passed.add(path)
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Etc:
    """`folder` is mounted as /etc; `words`: bubblewrap's arguments for what is mounted in it."""

    folder: Path
    words: list[str]


def prepare_etc(root: Path, uid: int, gid: int, groups: Sequence[int], more: Iterable[str] = ()) -> Etc:
    """What a user's sandboxes see, made below a root when it has changed. Raises OSError."""
    users = accounts.passwd_and_group(uid, gid, groups, home=str(HOME), shell=_shell())
    copied: dict[str, str] = {}
    mounted: dict[str, str] = {}
    marks: list[object] = [users]
    for name, source in shown_entries(more).items():
        status = os.stat(source)
        small = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
        (copied if small else mounted)[name] = source
        mark = (status.st_ino, status.st_size, status.st_mtime_ns) if small else stat.S_IFMT(status.st_mode)
        marks.append((name, source, mark))
    # What the machine's power took from the disk again is another boot's.
    boot = procfs.boot_id()
    place = root / "etc" / f"{boot}-{hashlib.sha256(repr(marks).encode()).hexdigest()[:16]}"
    if not place.exists():
        _make_folder(place, dict(zip(USERS, users, strict=True)), copied, mounted)
        for old in place.parent.iterdir():
            if not old.name.startswith((boot, ".")):
                shutil.rmtree(old, ignore_errors=True)
    words = [word for name, source in mounted.items() for word in ("--ro-bind-try", source, f"{TOP}/{name}")]
    return Etc(place, words)


def _make_folder(
    place: Path, users: Mapping[str, str], copied: Mapping[str, str], mounted: Mapping[str, str]
) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".", dir=place.parent))
    try:
        draft.chmod(0o755)
        for name, text in users.items():
            _write_public(draft / name, text.encode())
        for name, source in copied.items():
            _ensure_folder((draft / name).parent)
            _write_public(draft / name, Path(source).read_bytes())
        for name, source in mounted.items():
            _ensure_folder((draft / name).parent)
            _ensure_folder(draft / name) if os.path.isdir(source) else _write_public(draft / name, b"")
        draft.rename(place)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not place.exists():  # Somebody else may have made it just now.
            raise


def _ensure_folder(place: Path) -> None:
    """With those above it; everybody may see what is in it, whatever our own umask is."""
    if not place.exists():
        _ensure_folder(place.parent)
        place.mkdir()
        place.chmod(0o755)


def _write_public(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    place.chmod(0o644)


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
