"""The `/etc` of a sandbox: what programs need of the machine's, and users of its own. Nothing else of it is
shown, whatever the rights of a file there are.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from providers import accounts
from providers.process.mounts import HOME

SHOWN = (
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


def shown(more: Iterable[str] = ()) -> list[str]:
    """bubblewrap's arguments that show each file or folder read-only, and `more`.

    A link shows what it leads to: `/run`, where resolv.conf often is, is not the machine's in there.
    """
    there = sorted(os.listdir(TOP))
    words: list[str] = []
    for name in (*SHOWN, *more):
        first, _, below = name.partition("/")
        for found in fnmatch.filter(there, first) if "*" in first else (first,):
            path = os.path.join(TOP, found, below).rstrip("/")
            if os.access(path, os.R_OK):
                words += ["--ro-bind-try", os.path.realpath(path), path]
    return words


def write(kernel: Path, uid: int, gid: int, groups: Sequence[int]) -> None:
    """`passwd` and `group` of a kernel, in its folder, readable to its user alone. Raises OSError."""
    place = kernel / "etc"
    place.mkdir(mode=0o700, exist_ok=True)
    made = accounts.texts(uid, gid, groups, home=str(HOME), shell=_shell())
    for name, text in zip(USERS, made, strict=True):
        # Written anew at each start, and so in no need of being on the disk at once.
        (place / name).unlink(missing_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(0o400)
        os.chown(place / name, uid, gid)


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
