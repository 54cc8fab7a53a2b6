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

    from providers.process.supervision.records import Record, Root

FILE = "shared.json"
LOCK = "shared.pool"


def shared(root: str) -> list[int]:
    """CPU numbers; empty means all: nobody ever had cores alone."""
    cpus = files.read_json(os.path.join(root, FILE)).get("cpus", [])
    assert isinstance(cpus, list)
    return cpus


def settle(root: Root, bind: Callable[[Record], None]) -> None:
    """Find out who has cores alone, write down what is left, and `bind` the running kernels that share it.

    A kernel with cores of its own that is about to start counts already; one that has ended does not.
    """
    with root.locked(LOCK):
        records = [record for name in root.ids() if (record := _readable(root, name)) is not None]
        left = _left(records)
        if left != shared(str(root.path)):
            files.write_atomically(str(root.path / FILE), json.dumps({"cpus": left}))
            for record in records:
                if record.alive and record.begun and not record.spec.cpus:
                    _gently(bind, record)
        root.forget_lock(LOCK)


def forget(root: Root) -> None:
    """With the last kernel the file goes too."""
    if not (root.path / FILE).exists():
        return
    with root.locked(LOCK):
        if not root.ids():
            (root.path / FILE).unlink(missing_ok=True)
        root.forget_lock(LOCK)


def _left(records: list[Record]) -> list[int]:
    alone = {cpu for record in records if record.alive or not record.begun for cpu in record.spec.cpus}
    return sorted(_usable() - alone)


def _usable() -> set[int]:
    """What the machine (or the container we are in) gives to everybody; not what our caller was bound to."""
    try:
        return os.sched_getaffinity(1)
    except OSError:
        return os.sched_getaffinity(0)


def _readable(root: Root, name: str) -> Record | None:
    try:
        return root.read(name)
    except (OSError, ValueError):
        return None


def _gently(bind: Callable[[Record], None], record: Record) -> None:
    """One that ends just now, and whose groups go, is nobody's trouble."""
    try:
        bind(record)
    except OSError as error:
        if record.alive and error.errno not in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
            raise
