"""The watched things as they are now, each as one text under one name."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping

from providers.condition.node.system import output, read

TYPE_CHECKING = False  # to import typing would take as long as to look
if TYPE_CHECKING:
    from typing import Any

ABSENT = "absent"
_CHUNK = 1 << 20


def state(watch: Mapping[str, Any]) -> dict[str, str]:
    """`watch`: packages, held, files, sysctls, units, modules, mounts; each a list of names or a mapping by
    name. All have a value, `absent` where there is no such thing."""
    found: dict[str, str] = {"kernel": os.uname().release}
    looks: tuple[tuple[str, Callable[[Iterable[str]], dict[str, str]]], ...] = (
        ("files", _files),
        ("sysctls", _sysctls),
        ("units", _units),
        ("modules", _modules),
        ("mounts", _mounts),
    )
    found.update(_packages(list(watch.get("packages") or ()), list(watch.get("held") or ())))
    for kind, look in looks:
        names = sorted(watch.get(kind) or ())
        if names:
            found.update(look(names))
    return found


def _packages(names: Iterable[str], held: Iterable[str]) -> dict[str, str]:
    names, held = sorted(names), sorted(held)
    if not names and not held:
        return {}
    every = sorted({*names, *held})
    versions, holds = _dpkg(every) if os.path.isdir("/var/lib/dpkg") else _rpm(every)
    found = {"package " + name: versions.get(name, ABSENT) for name in names}
    found.update({"hold of " + name: "held" if name in holds else "not held" for name in held})
    return found


def _dpkg(names: Iterable[str]) -> tuple[dict[str, str], Iterable[str]]:
    form = "${Package}\t${Version}\t${db:Status-Abbrev}\t${Architecture}\n"
    versions: dict[str, str] = {}
    holds = set()
    for line in output(["dpkg-query", "-W", "-f", form, *names]).splitlines():
        name, version, status, architecture = [*line.split("\t"), "", "", ""][:4]
        for known in (name, name + ":" + architecture):
            if status[1:2] == "i":
                versions[known] = version
            elif status[1:2] not in ("n", "c", ""):
                versions[known] = version + " (" + status.strip() + ")"
            if status[:1] == "h":
                holds.add(known)
    return versions, holds


def _rpm(names: Iterable[str]) -> tuple[dict[str, str], Iterable[str]]:
    names = list(names)
    form = "%{NAME}\t%{EVR}\n"
    versions: dict[str, str] = {}
    for line in output(["rpm", "-q", "--qf", form, *names]).splitlines():
        name, tab, version = line.partition("\t")
        if tab:  # several versions of a kernel may be installed side by side
            versions[name] = versions[name] + " " + version if name in versions else version
    locks = read("/etc/dnf/plugins/versionlock.list") + read("/etc/yum/pluginconf.d/versionlock.list")
    lines = [line.strip() for line in locks.splitlines() if not line.startswith(("#", "!"))]
    return versions, {name for name in names if any(_is_lock_of(line, name) for line in lines)}


def _is_lock_of(line: str, name: str) -> bool:
    """Whether a line `[epoch:]name-[epoch:]version-release.arch` is about this package."""
    head, colon, rest = line.partition(":")
    if colon and head.isdigit():
        line = rest
    return line.rsplit("-", 2)[0] == name


def _files(paths: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        found.update(_file(path))
    return found


def _file(path: str) -> dict[str, str]:
    name = "file " + path
    try:
        seen = os.lstat(path)
    except OSError:
        return {name: ABSENT}
    owner = f"{seen.st_uid}:{seen.st_gid}"
    if stat.S_ISLNK(seen.st_mode):
        return {name: "link to " + os.readlink(path), name + " owner": owner}
    found = {name + " mode": f"{stat.S_IMODE(seen.st_mode):04o}", name + " owner": owner}
    found[name] = _content_hash(path) if stat.S_ISREG(seen.st_mode) else _file_kind(seen.st_mode)
    return found


def _file_kind(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "special file"


def _content_hash(path: str) -> str:
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for data in iter(lambda: file.read(_CHUNK), b""):
                total.update(data)
    except OSError:
        return "unreadable"
    return "sha256 " + total.hexdigest()


def _sysctls(names: Iterable[str]) -> dict[str, str]:
    return {"sysctl " + name: " ".join(read(_sysctl_path(name)).split()) or ABSENT for name in names}


def _sysctl_path(name: str) -> str:
    """`net.ipv4.conf.eth0/1.mtu` is how a dot inside of a part is written."""
    return "/proc/sys/" + name.translate({ord("."): "/", ord("/"): "."})


def _units(names: Iterable[str]) -> dict[str, str]:
    names = list(names)
    lines = output(["systemctl", "is-active", "--", *names]).split()
    if len(lines) != len(names):
        lines = ["unknown"] * len(names)
    return {"unit " + name: line for name, line in zip(names, lines)}


def _modules(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        folder = "/sys/module/" + name.replace("-", "_")
        loaded = read(folder + "/version").strip() or "loaded"
        found["module " + name] = loaded if os.path.isdir(folder) else "not loaded"
    return found


def _mounts(paths: Iterable[str]) -> dict[str, str]:
    mounted: dict[str, str] = {}
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        words = right.split()
        mounted[_unescape(left.split()[4])] = _unescape(" ".join(words[:2]))
    return {"mount " + path: mounted.get(path.rstrip("/") or "/", "not mounted") for path in paths}


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
