"""Where a supervisor lives: its lock, its own control group, the orphans it adopts, its answer.

Cheap imports only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os

from providers.process.linux import cgroup, cgroup_mounts, files
from providers.process.supervision import binding, shared_cores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from providers.process.supervision.child import Order

PR_SET_CHILD_SUBREAPER = 36


def take_over(order: Order) -> int:
    """The lock that shows we live.

    −1 when somebody else has it or the kernel is no longer wanted in this form.
    """
    path = os.path.join(order["folder"], "alive")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if not files.try_lock(descriptor) or os.fstat(descriptor).st_ino != os.stat(path).st_ino:
            return -1
        wanted = files.read_json(os.path.join(order["folder"], "intent.json")).get("nonce") == order["nonce"]
    except (OSError, ValueError):
        return -1
    return descriptor if wanted else -1


def leave_session(groups: list[cgroup.Group]) -> None:
    """Into a group of our own, so that no limit or log-out of whoever called bai reaches us."""
    bases: list[cgroup.Group] = [{**group, "path": os.path.dirname(group["path"])} for group in groups]
    keepers = cgroup.below(bases, cgroup.KEEPERS)
    for last in (False,) * 20 + (True,):
        try:
            cgroup.make(keepers)
            cgroup.join(keepers, os.getpid())
            return
        except OSError as error:
            if last or error.errno not in (errno.ENOENT, errno.ENODEV):
                raise


def split_scope() -> list[cgroup.Group]:
    """Inside our own delegated scope: ourselves in one leaf, the kernel in another."""
    scope = cgroup_mounts.own_scope()
    if not scope:
        return []
    keeper, kernel = cgroup.below(scope, "keeper"), cgroup.below(scope, "kernel")
    cgroup.make(keeper)
    cgroup.vacate(scope, keeper)
    offered = cgroup.read(os.path.join(scope[0]["path"], "cgroup.controllers")).split()
    wanted = [name for name in cgroup.CONTROLLERS if name in offered]
    return [{**kernel[0], "controllers": cgroup.enable(scope[0]["path"], wanted)}]


def become_subreaper() -> None:
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def scratch_limit(folder: str) -> int:
    """Bytes that its files may take now; 0 for any number. Raises OSError, ValueError."""
    spec = files.read_json(os.path.join(folder, "intent.json")).get("spec")
    found = spec.get("scratch") if isinstance(spec, dict) else 0
    return found if isinstance(found, int) else 0


def current_limits(folder: str) -> cgroup.Limits:
    """The limits of now: an update may have changed them since the first start."""
    spec = files.read_json(os.path.join(folder, "intent.json"))["spec"]
    assert isinstance(spec, dict)
    return {
        "cpus": spec["cpus"],
        "memory_nodes": spec["memory_nodes"],
        "memory": spec["memory"],
        "pids": spec["pids"],
        "cpu_milli": spec["cpu_milli"],
        "pool": shared_cores.read_shared_cores(os.path.dirname(os.path.dirname(folder))),
    }


def bind_if_changed(folder: str, groups: list[cgroup.Group], limits: cgroup.Limits) -> None:
    """Whoever changes what a kernel may have writes that down, and then binds those that have begun: a change
    until this one had begun, with `limits`, is for its supervisor to see."""
    now = current_limits(folder)
    if now != limits:
        with contextlib.suppress(OSError):  # of groups that took the limits of just before
            binding.bind_kernel(groups, os.getpid(), now)


def send_answer(**fields: object) -> None:
    """Tell bai, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(fields).encode() + b"\n")
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
