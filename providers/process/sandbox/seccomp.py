"""The filter of system calls that every sandboxed session runs under, as bubblewrap and the kernel take it:
an array of `struct sock_filter` (seccomp(2)), compiled by libseccomp for this machine.

What is not allowed fails with EPERM, as in containers; `clone3` with ENOSYS, for its flags cannot be seen and
C libraries then use `clone`, which may make threads and processes and no namespaces.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path

from providers.process.linux.files import sync_directory
from providers.process.sandbox.syscalls import ALLOWED

_NAMESPACES = 0x7E020000
"""CLONE_NEW*, but for that of time, which `clone` does not take."""
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, Linux on 32 bits, each with addresses of 3 GB or not, and the question."""
_REFUSED_FAMILIES = tuple(getattr(socket, name) for name in ("AF_ALG", "AF_VSOCK"))
"""Sockets that reach the kernel's own cryptography (CVE-2026-31431) and the machine's host."""
_HUGE_PAGES = {"mmap": (3, 0x40000), "mmap2": (3, 0x40000), "memfd_create": (1, 0x4), "shmget": (2, 0o4000)}
"""Call → the argument with its flags, and the one that asks for pages which the machine has set aside
(MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB): nothing else would keep sessions off them."""
_MOST = 45
"""Address families that Linux has, at most."""
_VERSION = 2
"""Of the rules in this module."""


def filter_problem(root: Path) -> str:
    """Why kernels of a root run without a filter; empty when they have one. What was compiled once needs no
    library, which takes longer to load than the rest of a look at the machine."""
    return "" if os.path.exists(_compiled_path(root)) else _library_problem()


@cache
def _library_problem() -> str:
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        return f"libseccomp cannot be used: {error}"
    return ""


def put_filter(root: Path, kernel: Path, name: str) -> str:
    """The filter as a file `name` in a kernel's folder; compiled once for all kernels of a root. Its path;
    empty where there can be none. Raises OSError."""
    compiled = _compiled_path(root)
    if not compiled.exists():
        if _library_problem():
            return ""
        _compile(compiled)
    target = kernel / name
    shutil.copyfile(compiled, target)
    target.chmod(0o600)
    return str(target)


def _compiled_path(root: Path) -> Path:
    words = f"{_VERSION} {os.uname().machine} {' '.join(sorted(ALLOWED))}"
    return root / f"seccomp-{hashlib.sha256(words.encode()).hexdigest()[:16]}.bpf"


def _compile(path: Path) -> None:
    import pyseccomp as seccomp

    refused = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(refused)
    rules.set_attr(seccomp.Attr.ACT_BADARCH, refused)
    for name in sorted(ALLOWED):
        if _is_known(name):
            flags = _HUGE_PAGES.get(name)
            without = (seccomp.Arg(flags[0], seccomp.MASKED_EQ, flags[1], 0),) if flags else ()
            rules.add_rule(seccomp.ALLOW, name, *without)
    rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _NAMESPACES, 0))
    if _is_known("clone3"):
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for value in _PERSONALITIES:
        rules.add_rule(seccomp.ALLOW, "personality", seccomp.Arg(0, seccomp.EQ, value))
    for family in range(_MOST + 1):
        if family not in _REFUSED_FAMILIES:
            rules.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, family))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as draft:
        try:
            rules.export_bpf(draft)
            os.fsync(draft.fileno())
            os.rename(draft.name, path)
        except BaseException:
            os.unlink(draft.name)
            raise
    sync_directory(str(path.parent))


def _is_known(name: str) -> bool:
    """Whether this libseccomp and this architecture have it."""
    import pyseccomp as seccomp

    try:
        return int(seccomp.resolve_syscall(seccomp.system_arch(), name)) >= 0
    except (OSError, ValueError):
        return False
