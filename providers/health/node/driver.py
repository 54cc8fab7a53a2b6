"""What of NVIDIA's software is loaded, installed and written down on a machine."""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Any, Iterator

from providers.health.node.files import NoAnswer, Tree, run

_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
)  # fmt: skip
_CDI = ("/etc/cdi", "/var/run/cdi")
_VERSION = re.compile(r"(?:x86_64|aarch64|Module)(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)")
_PACKAGES = re.compile(r"^(nvidia-fabricmanager|nvidia-container-toolkit|nvlink5|datacenter-gpu-manager)")
_UNITS = (
    "nvidia-fabricmanager", "nvidia-persistenced", "nvidia-cdi-refresh.path", "docker", "containerd",
)  # fmt: skip


def software(tree: Tree) -> dict[str, Any]:
    """Versions: `loaded` by the kernel, `on_disk` for the kernel that runs, `library` of user space."""
    running = tree.read("/proc/sys/kernel/osrelease", 200)
    library, since = _library(tree)
    packages = dict(_debian_packages(tree)) or dict(_red_hat_packages(tree))
    return {
        "loaded": tree.read("/sys/module/nvidia/version", 64) or _loaded_version(tree),
        "on_disk": _version_on_disk(tree, running),
        "library": library,
        "library_since": since,
        "packages": packages,
        "kernels": _kernels(tree),
        "running": running,
        "reboot_required": tree.there("/run/reboot-required") or tree.there("/var/run/reboot-required"),
    }


def _loaded_version(tree: Tree) -> str:
    found = _VERSION.search(tree.read("/proc/driver/nvidia/version", 4096))
    return found.group(1) if found else ""


def _version_on_disk(tree: Tree, running: str) -> str:
    """What `modprobe nvidia` would load now."""
    if not tree.own:
        return tree.read("/modinfo/nvidia", 64)
    try:
        code, text = run(["modinfo", "-k", running, "-F", "version", "nvidia"], 10)
    except NoAnswer:
        return ""
    return "" if code else text.strip()


def _library(tree: Tree) -> tuple[str, float]:
    """Version of libnvidia-ml.so.1, and when it was put there (seconds since the epoch)."""
    for folder in _LIBRARIES:
        path = tree.at(f"{folder}/libnvidia-ml.so.1")
        found = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", os.path.realpath(path))
        if found and os.path.exists(path):
            return found.group(1), os.stat(path).st_ctime
    return "", 0.0


def _kernels(tree: Tree) -> list[dict[str, Any]]:
    """Every kernel that is installed, and whether it has a module for the GPUs."""
    found = []
    for release in tree.names("/lib/modules"):
        modules = tree.read(f"/lib/modules/{release}/modules.dep")
        if modules:
            has = bool(re.search(r"(^|/)nvidia\.ko(\.\w+)?:", modules, re.MULTILINE))
            found.append({"release": release, "nvidia": has})
    return found


def _debian_packages(tree: Tree) -> Iterator[tuple[str, str]]:
    for part in tree.read("/var/lib/dpkg/status").split("\n\n"):
        name = part[part.find("Package: ") + 9 :].split("\n", 1)[0]
        if _PACKAGES.match(name) and "\nStatus: install ok installed" in part:
            version = re.search(r"^Version: (\S+)", part, re.MULTILINE)
            yield name, version.group(1) if version else ""


def _red_hat_packages(tree: Tree) -> Iterator[tuple[str, str]]:
    if not tree.own or not tree.there("/var/lib/rpm"):
        return
    try:
        code, text = run(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n", "*nvidia*", "*nvlink*"], 20)
    except NoAnswer:
        return
    for line in text.splitlines() if not code else ():
        name, _, version = line.partition(" ")
        if _PACKAGES.match(name):
            yield name, version


def units(tree: Tree) -> dict[str, str]:
    """Unit → `active`, `inactive`, `failed`, ...; units that are not installed are left out."""
    if not tree.own:
        return {name: state for name in tree.names("/units") if (state := tree.read(f"/units/{name}", 64))}
    try:
        code, text = run(["systemctl", "show", "-p", "Id,LoadState,ActiveState", "--", *_UNITS], 10)
    except NoAnswer:
        return {}
    found = {}
    for part in text.split("\n\n") if not code else ():
        about = dict(line.partition("=")[::2] for line in part.splitlines())
        if about.get("LoadState") in ("loaded", "masked"):
            name = re.sub(r"\.service$", "", about.get("Id", ""))
            found[name] = about.get("ActiveState", "")
    return found


def cdi(tree: Tree) -> list[dict[str, Any]]:
    """Specifications of NVIDIA's devices for containers: their `devices`, the host paths of theirs that are
    `missing`, and when they were `written` (seconds since the epoch)."""
    found = {}
    for folder in _CDI:
        for name in tree.names(folder):
            path = f"{folder}/{name}"
            text = tree.read(path) if name.endswith((".yaml", ".yml", ".json")) else ""
            if re.search(r"\"?kind\"?: *\"?nvidia\.com/gpu", text):
                found[os.path.realpath(tree.at(path))] = _specification(tree, path, text)
    return list(found.values())


def _specification(tree: Tree, path: str, text: str) -> dict[str, Any]:
    text = text[text.find("devices") :]
    names = re.findall(r"^(?:\s{0,8}- |\s{2,8})name: *\"?([^\"\n]+?)\"?$", text, re.MULTILINE)
    names += re.findall(r"\"name\": *\"([^\"]+)\"", text)
    paths = set(re.findall(r"\"?hostPath\"?: *\"?(/[^\s\",]+)", text))
    paths |= set(re.findall(r"\"?path\"?: *\"?(/dev/nvidia[^\s\",]*)", text))
    missing = sorted(each for each in paths if not tree.there(each))
    return {
        "path": path,
        "written": os.stat(tree.at(path)).st_mtime,
        "devices": sorted(set(names)),
        "missing": missing[:50],
    }


def unlinked(tree: Tree) -> list[str]:
    """Links in /dev/char that are missing for NVIDIA's devices: systemd finds devices by them when it sets up
    the cgroups of containers again (NVIDIA/nvidia-container-toolkit#48)."""
    found = []
    for name in tree.names("/dev"):
        if not re.match(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)$", name):
            continue
        state = os.stat(tree.at(f"/dev/{name}"))
        link = f"/dev/char/{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}"
        if stat.S_ISCHR(state.st_mode) and not tree.there(link):
            found.append(link)
    return found


def clock(tree: Tree) -> float:
    return time.time() if tree.own else float(tree.read("/now", 32) or 0)
