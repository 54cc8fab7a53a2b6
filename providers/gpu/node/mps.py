"""Who shares which GPU of this node, written down beside its MPS daemon: started with the first, stopped with
the last. Everything is in files on the node, so that whoever asks next finds it.

`<root>/<gpu>/` has the daemon's `pipe`, `log` and `shm`, and in `holders/` a file per kernel with what it may
have. A file `standing` there says that the node's profile keeps the daemon up (roles/mps): it never stops.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Iterator

from providers.gpu.node.daemon import MpsDaemon, MpsFailed

YOUNG = 600.0
"""Seconds in which a sharer need not be seen running: its image may be fetched first."""


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: `do` (a verb), `root` and what the verb needs; the answer has `failed` when it failed."""
    try:
        return _VERBS[request["do"]](request)
    except MpsFailed as error:
        return {"failed": str(error)}
    except OSError as error:
        return {"failed": f"{error.strerror or error} at {error.filename}" if error.filename else str(error)}


@contextlib.contextmanager
def _locked(root: Path, gpu: str) -> Iterator[Path]:
    """The GPU's folder, one process at a time."""
    if "/" in gpu or gpu in ("", ".", ".."):
        raise MpsFailed(f"{gpu!r} is not the id of a GPU")
    folder = root / gpu
    (folder / "holders").mkdir(parents=True, exist_ok=True)
    (folder / "log").mkdir(exist_ok=True)
    for each in (root, folder):
        each.chmod(0o755)
    with open(str(folder / "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def hold(request: dict[str, Any]) -> dict[str, Any]:
    """Write a kernel down as a sharer of `gpu`; the daemon runs afterwards, and lets it have `percent` of the
    threads and `memory` bytes. `running`: kernels that live on this node, where that is known."""
    with _locked(Path(request["root"]), request["gpu"]) as folder:
        _drop_dead(folder, request.get("running"))
        holder = folder / "holders" / request["kernel"]
        draft = folder / f".{request['kernel']}"
        draft.write_text(json.dumps({"percent": request["percent"], "memory": request["memory"]}))
        os.replace(str(draft), str(holder))
        daemon = MpsDaemon(folder, request["gpu"])
        try:
            started, own = _ensure_running(folder, daemon, request["shm"])
            _apply_limits(folder, daemon)
        except MpsFailed:
            holder.unlink()
            raise
        return {
            "pipe": str(daemon.pipe), "log": str(daemon.log), "shm": str(daemon.shm) if own else "",
            "started": started, "pid": daemon.pid(),
        }  # fmt: skip


def _ensure_running(folder: Path, daemon: MpsDaemon, shm: str) -> tuple[bool, bool]:
    """Whether it had to be started, and whether it has shared memory of its own."""
    note = folder / "shm-is"
    if daemon.pid() and daemon.answers():
        is_ = note.read_text() if note.exists() else "host"
        if shm == "host" and is_ != "host":
            raise MpsFailed(f"the MPS daemon of {daemon.gpu} serves containers, and this kernel is none")
        return False, is_ == "own"
    daemon.stop()
    own = shm == "own"
    try:
        daemon.start(own_shm=own)
    except MpsFailed:
        if not own:
            raise
        own = False  # Nothing can be mounted here: the machine's own shared memory serves as well.
        daemon.start(own_shm=False)
    note.write_text("own" if own else "host")
    return True, own


def _apply_limits(folder: Path, daemon: MpsDaemon) -> None:
    holders = _holders(folder)
    if holders:
        unlimited = any(not each["memory"] for each in holders.values())
        memory = 0 if unlimited else max(each["memory"] for each in holders.values())
        daemon.set_limits(max(each["percent"] for each in holders.values()), memory)


def _holders(folder: Path) -> dict[str, dict[str, int]]:
    found = {}
    for path in (folder / "holders").iterdir():
        with contextlib.suppress(OSError, ValueError):
            found[path.name] = json.loads(path.read_text())
    return found


def _drop_dead(folder: Path, running: Any) -> None:
    """Not those who have just been written down: they are about to run."""
    if running is None:
        return
    for holder in (folder / "holders").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if holder.name not in running and time.time() - holder.stat().st_mtime > YOUNG:
                holder.unlink()


def drop(request: dict[str, Any]) -> dict[str, Any]:
    """A kernel shares nothing any more; daemons that nobody needs end. `running`: as for `hold`."""
    stopped = []
    for gpu in _gpus(request):
        with _locked(Path(request["root"]), gpu) as folder:
            with contextlib.suppress(FileNotFoundError):
                (folder / "holders" / request["kernel"]).unlink()
            _drop_dead(folder, request.get("running"))
            daemon = MpsDaemon(folder, gpu)
            if _holders(folder) or (folder / "standing").exists():
                with contextlib.suppress(MpsFailed):
                    _apply_limits(folder, daemon)
                continue
            if daemon.pid():
                daemon.stop()
                stopped.append(gpu)
            for name in ("pipe", "shm", "shm-is"):
                path = folder / name
                shutil.rmtree(str(path), ignore_errors=True) if path.is_dir() else _unlink(path)
    return {"stopped": stopped}


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def revive(request: dict[str, Any]) -> dict[str, Any]:
    """Start the daemons again that have sharers and died. `running`: as for `hold`."""
    started = []
    for gpu in _gpus(request):
        with _locked(Path(request["root"]), gpu) as folder:
            _drop_dead(folder, request.get("running"))
            daemon = MpsDaemon(folder, gpu)
            if _holders(folder) and not (daemon.pid() and daemon.answers()):
                note = folder / "shm-is"
                _ensure_running(folder, daemon, note.read_text() if note.exists() else "host")
                _apply_limits(folder, daemon)
                started.append(gpu)
    return {"started": started}


def status(request: dict[str, Any]) -> dict[str, Any]:
    """GPU → its daemon's process and its sharers."""
    root = Path(request["root"])
    return {
        gpu: {"pid": MpsDaemon(root / gpu, gpu).pid(), "holders": _holders(root / gpu)}
        for gpu in _gpus(request)
    }


def _gpus(request: dict[str, Any]) -> list[str]:
    try:
        return sorted(each.name for each in Path(request["root"]).iterdir() if (each / "holders").is_dir())
    except FileNotFoundError:
        return []


_VERBS = {"hold": hold, "drop": drop, "revive": revive, "status": status}
