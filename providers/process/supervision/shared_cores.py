"""The cores that nobody has alone: what kernels with a share of CPU may use.

`<root>/shared.json` names them. It is written anew whenever a kernel with cores of its own comes,
changes or goes; supervisors read it at every start of their kernel, and kernels that run already are bound
again. Cheap imports only.
"""

from __future__ import annotations

import errno
import json
import os

from providers.process.linux import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.process.supervision.records import KernelRecord, KernelRoot

FILE = "shared.json"
LOCK = "shared.pool"


def read_shared_cores(root: str) -> list[int]:
    """CPU numbers; empty means all: nobody ever had cores alone."""
    cpus = files.read_json(os.path.join(root, FILE)).get("cpus", [])
    assert isinstance(cpus, list)
    return cpus


def share_out(root: KernelRoot, bind: Callable[[KernelRecord], None]) -> None:
    """Find out who has cores alone, write down what is left, and `bind` the running kernels that share it.

    A kernel with cores of its own that is about to start counts already; one that has ended does not.
    """
    with root.locked(LOCK):
        left = _cores_left(_records(root))
        if left != read_shared_cores(str(root.path)):
            files.write_atomically(str(root.path / FILE), json.dumps({"cpus": left}))
            # Looked at anew: one that began before the cores were written down knows those of before, and
            # one that begins now reads the new ones.
            for record in _records(root):
                if record.alive and record.begun and not record.spec.cpus:
                    _bind_unless_gone(bind, record)
        root.forget_lock(LOCK)


def forget(root: KernelRoot) -> None:
    """With the last kernel the file goes too."""
    if not (root.path / FILE).exists():
        return
    with root.locked(LOCK):
        if not root.ids():
            (root.path / FILE).unlink(missing_ok=True)
        root.forget_lock(LOCK)


def _cores_left(records: list[KernelRecord]) -> list[int]:
    alone = {cpu for record in records if record.runs or not record.begun for cpu in record.spec.cpus}
    return sorted(_usable_cpus() - alone)


def _usable_cpus() -> set[int]:
    """What the machine (or the container we are in) gives to everybody; not what our caller was bound to."""
    try:
        return os.sched_getaffinity(1)
    except OSError:
        return os.sched_getaffinity(0)


def _records(root: KernelRoot) -> list[KernelRecord]:
    return [record for name in root.ids() if (record := _read_or_none(root, name)) is not None]


def _read_or_none(root: KernelRoot, name: str) -> KernelRecord | None:
    try:
        return root.read(name)
    except (OSError, ValueError):
        return None


def _bind_unless_gone(bind: Callable[[KernelRecord], None], record: KernelRecord) -> None:
    """One that ends just now, and whose groups go, is nobody's trouble."""
    try:
        bind(record)
    except OSError as error:
        if record.alive and error.errno not in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
            raise
