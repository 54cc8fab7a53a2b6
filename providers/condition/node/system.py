"""What the node is: its system, kernel and boot, and whether it waits for another one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

_FLAGS = ("/run/reboot-required", "/var/run/reboot-required")
_ROCKY = ("rhel", "rocky", "almalinux", "centos", "ol")


def facts() -> dict[str, str]:
    """`os` (`debian-12`, `rhel-9`, ...), `kernel`, `bootId`, `rebootPending` (why; empty: it does not)."""
    return {
        "os": _os_name(read("/etc/os-release")),
        "kernel": os.uname().release,
        "bootId": read("/proc/sys/kernel/random/boot_id").strip(),
        "rebootPending": _reboot_pending(),
    }


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def output(argv: Sequence[str]) -> str:
    """What a command says, whatever its exit code; nothing where it is not there."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _os_name(release: str) -> str:
    said: dict[str, str] = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    name, version = said.get("ID", "linux"), said.get("VERSION_ID", "")
    if name in _ROCKY:
        return "rhel-" + version.split(".")[0]
    return name + "-" + version if version else name


def _reboot_pending() -> str:
    if not any(os.path.exists(path) for path in _FLAGS):
        return ""
    names: list[str] = sorted(set(read("/run/reboot-required.pkgs").split()))
    return "packages ask for it: " + ", ".join(names) if names else "its packages ask for it"
