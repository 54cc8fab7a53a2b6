"""Folders of a Linux machine that are the system's own: no volume lies there, whoever asks for it."""

from __future__ import annotations

from pathlib import PurePosixPath

_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin",
    "/sys", "/usr", "/var/cache", "/var/db", "/var/lib/cni", "/var/lib/containerd", "/var/lib/containers",
    "/var/lib/docker", "/var/lib/etcd", "/var/lib/k0s", "/var/lib/kubelet", "/var/lib/rancher", "/var/lock",
    "/var/log", "/var/mail", "/var/run", "/var/spool",
)  # fmt: skip
"""With all that is in them."""


def is_of_system(folder: str) -> bool:
    """Whether it is one of them, lies in one, or has one in it. Pure: links are not followed, which only the
    machine itself can."""
    path = PurePosixPath("/", folder.lstrip("/"))
    return any(path.is_relative_to(each) or PurePosixPath(each).is_relative_to(path) for each in _SYSTEM)
