"""Where the control group hierarchies of this machine are, and which of them let us in. Cheap imports."""

from __future__ import annotations

import os

from providers.process.linux.cgroup import CONTROLLERS, enable, inherit_cpuset, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from providers.process.linux.cgroup import Group


def mounted(mountinfo: str = "/proc/self/mountinfo") -> list[Group]:
    """The mounted hierarchies that matter: one per version 1 controller, and version 2's."""
    found: list[Group] = []
    with open(mountinfo, encoding="utf-8") as stream:
        for line in stream:
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            path = left.split(" ")[4].replace("\\040", " ")
            controllers = [name for name in CONTROLLERS if name in options.strip().split(",")]
            if kind == "cgroup" and controllers:
                found.append({"path": path, "version": 1, "controllers": controllers})
            elif kind == "cgroup2":
                found.append({"path": path, "version": 2, "controllers": []})
    return found


def prepare(base: str) -> tuple[list[Group], dict[str, str]]:
    """Make the group `base` in every hierarchy that lets us, ready to hold kernels.

    Gives the groups, and for each controller that is not among them why not.
    """
    groups: list[Group] = []
    missing = dict.fromkeys(CONTROLLERS, "no cgroup controller is mounted for it")
    for top in mounted():
        try:
            groups.append(_prepare_one(top, base))
        except OSError as error:
            why = f"{top['path']}: {os.strerror(error.errno or 0)}"
            missing.update(dict.fromkeys(top["controllers"], why))
    for group in groups:
        for name in group["controllers"]:
            missing.pop(name, None)
    return groups, missing


def _prepare_one(top: Group, base: str) -> Group:
    path = os.path.join(top["path"], base)
    if top["version"] == 2:
        offered = read(os.path.join(top["path"], "cgroup.controllers")).split()
        enabled = enable(top["path"], [name for name in CONTROLLERS if name in offered])
        os.makedirs(path, 0o755, exist_ok=True)
        return {"path": path, "version": 2, "controllers": enable(path, enabled)}
    os.makedirs(path, 0o755, exist_ok=True)
    if "cpuset" in top["controllers"]:
        inherit_cpuset(path)
    return {"path": path, "version": 1, "controllers": top["controllers"]}


def own_scope() -> list[Group]:
    """The version 2 group this process is in, when it was delegated to us (a supervisor in a scope)."""
    tops = [top["path"] for top in mounted() if top["version"] == 2]
    with open("/proc/self/cgroup", encoding="utf-8") as stream:
        paths = [line.strip()[3:] for line in stream if line.startswith("0::")]
    if not tops or not paths:
        return []
    path = tops[0] + paths[0].rstrip("/")
    return [{"path": path, "version": 2, "controllers": []}] if os.access(path, os.W_OK) else []


def names(path: str) -> list[str]:
    """The groups directly in a group."""
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
