"""What the machine keeps about its kernels, independent of any repository and any store.

    <root>/kernels/<id>/   intent.json   the spec without secrets, labels, which attempt is meant
                           state.json    what the supervisor says
                           stop.json     a request to stop
                           alive         locked by the supervisor while it lives
                           scratch/      the kernel's own files
                           given/        files made for it, which it may only read
                           logs/         its output
    <root>/staging/        kernels not yet there: renamed into place when complete
    <root>/trash/          kernels no longer there
    <root>/locks/<id>      one create, update or remove at a time

All of it belongs to one user and is readable to nobody else. Names come from checked ids only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from providers.base import File, KernelSpec, Labels, Mount, RestartRule
from providers.gpu.gpu_share import GpuShare
from providers.process.linux import cgroup, files
from schemas.problems.errors.kernel import KernelRefused

_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){0,126}[a-z0-9]|[a-z0-9]")
_DEEP = 100
"""Levels of folders that can be deleted without more ado."""
STALE_STAGING = 600.0
"""Seconds after which something left in staging or trash by a killed process is swept."""
PATIENCE = 60.0
"""Seconds a supervisor may take to say that its kernel runs."""


@dataclass(frozen=True, slots=True)
class LogRotation:
    """How much of a kernel's output is kept. Made of the cluster's options; read by its supervisor."""

    size: int = 10 * 1024 * 1024
    """Bytes of one part."""
    files: int = 3
    """Most parts."""


DEFAULT_LOG = LogRotation()


def check_id(kernel_id: str) -> str:
    """The id, if it is safe as a file name and a group name. Raises KernelRefused."""
    if not _ID.fullmatch(kernel_id):
        raise KernelRefused(provider="process", kernel=repr(kernel_id), why="the id is not a safe name")
    return kernel_id


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel as it is on disk. `state` is the supervisor's last word, as it wrote it."""

    id: str
    folder: Path
    spec: KernelSpec
    created: float
    nonce: str
    state: Mapping[str, Any]

    @property
    def alive(self) -> bool:
        return files.is_locked(str(self.folder / "alive"))

    @property
    def runs(self) -> bool:
        """Whether it lives and has not ended. Its supervisor is alive a moment longer than what it keeps."""
        return self.state.get("phase") not in ("exited", "lost") and self.alive

    @property
    def begun(self) -> bool:
        """Whether its main process was ever started."""
        return "started" in self.state

    @property
    def groups(self) -> list[cgroup.Group]:
        return cast("list[cgroup.Group]", self.state.get("groups") or [])


class KernelRoot:
    """The machine-level folder. Raises OSError when it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = hashlib.sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:8]
        """Tells this root's control groups and processes from another root's."""

    def ensure(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(self.path, 0o700)
        for name in ("kernels", "staging", "trash", "locks"):
            (self.path / name).mkdir(exist_ok=True, mode=0o700)

    def mark(self, kernel_id: str) -> str:
        return f"{self.key}/{kernel_id}"

    @property
    def mps(self) -> Path:
        """What its MPS daemons keep; there once a kernel had a part of a GPU by them."""
        return self.path / "mps"

    def folder(self, kernel_id: str) -> Path:
        return self.path / "kernels" / check_id(kernel_id)

    def ids(self) -> list[str]:
        """Every name under `kernels`, safe or not."""
        try:
            return sorted(os.listdir(self.path / "kernels"))
        except FileNotFoundError:
            return []

    def read(self, kernel_id: str) -> KernelRecord | None:
        """The record, None when there is no such kernel.

        Raises ValueError and OSError when it cannot be read.
        """
        folder = self.folder(kernel_id)
        if not folder.is_dir():
            return None
        try:
            intent = cast(dict[str, Any], files.read_json(str(folder / "intent.json")))
            state = files.read_json(str(folder / "state.json"))
            spec = _load_spec(intent["spec"])
            created, nonce = float(intent["created"]), str(intent["nonce"])
        except (KeyError, TypeError) as error:
            if not folder.is_dir():
                return None
            raise ValueError(f"intent.json: {error}") from error
        return KernelRecord(kernel_id, folder, spec, created, nonce, state)

    @contextlib.contextmanager
    def locked(self, kernel_id: str) -> Iterator[None]:
        """One create, update or remove of this kernel at a time, across threads and processes."""
        path = str(self.path / "locks" / check_id(kernel_id))
        while True:
            descriptor = files.open_lock(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_same_file(descriptor, path):
                    yield
                    return
            finally:
                os.close(descriptor)

    def forget_lock(self, kernel_id: str) -> None:
        """Called by the lock's holder: who waits for it sees that the file is gone and takes a new one."""
        (self.path / "locks" / check_id(kernel_id)).unlink(missing_ok=True)

    def stage(self, spec: KernelSpec, now: float) -> KernelRecord:
        """Make the kernel's folder, complete or not at all."""
        nonce = uuid.uuid4().hex
        staged = self.path / "staging" / f"{check_id(spec.id)}.{nonce}"
        try:
            for name in ("", "scratch", "logs"):
                (staged / name).mkdir(mode=0o700)
            self._write_intent(staged, spec, now, nonce)
            os.close(files.open_lock(str(staged / "alive")))
            os.rename(staged, self.folder(spec.id))
        except OSError:
            _delete_tree(staged)
            self.forget_lock(spec.id)
            raise
        files.sync_directory(str(self.path / "kernels"))
        return KernelRecord(spec.id, self.folder(spec.id), replace(spec, secret_env={}), now, nonce, {})

    def rewrite(self, record: KernelRecord, spec: KernelSpec, *, again: bool) -> KernelRecord:
        """A new spec for a kernel; `again` also makes supervisors of earlier attempts unwanted."""
        nonce = uuid.uuid4().hex if again else record.nonce
        self._write_intent(record.folder, spec, record.created, nonce)
        return replace(record, spec=replace(spec, secret_env={}), nonce=nonce)

    def _write_intent(self, folder: Path, spec: KernelSpec, created: float, nonce: str) -> None:
        intent = {"version": 1, "created": created, "nonce": nonce, "spec": _dump_spec(spec)}
        files.write_atomically(str(folder / "intent.json"), json.dumps(intent))

    def discard(self, kernel_id: str) -> None:
        """The kernel is gone in one step.

        Its files go afterwards, and at some later time if this is interrupted.
        """
        from providers.process.supervision import scratch

        scratch.lift_limit(self.folder(kernel_id))
        target = self.path / "trash" / f"{check_id(kernel_id)}.{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.folder(kernel_id), target)
        _delete_tree(target)
        self.sweep(kernel_id)

    def has_leftovers(self, kernel_id: str) -> bool:
        """Whether there is a lock or an unfinished folder of this kernel."""
        lock = self.path / "locks" / check_id(kernel_id)
        return lock.exists() or any((self.path / "staging").glob(f"{kernel_id}.*"))

    def sweep(self, kernel_id: str) -> None:
        """Delete what killed processes left in staging and trash.

        This kernel's (whose lock we hold), and anything old.
        """
        for place in ("staging", "trash"):
            for entry in (self.path / place).iterdir():
                mine = entry.name.rpartition(".")[0] == kernel_id
                if mine or _age_of(entry) > STALE_STAGING:
                    _delete_tree(entry)


def _delete_tree(path: Path) -> None:
    """Never follows links. What the kernel closed, or nested too deep, is opened and moved up first."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        with contextlib.suppress(OSError):
            _flatten_tree(path)
        shutil.rmtree(path, ignore_errors=True)


def _flatten_tree(path: Path) -> None:
    """All folders may be changed, and none lies deeper than `_DEEP` levels. Nobody is at them any more."""
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        waiting = ["."]
        while waiting:
            for at, folders, _, here in os.fwalk(waiting.pop(), dir_fd=top):
                folders[:] = [name for name in folders if _open_up(name, here)]
                if at.count("/") < _DEEP:
                    continue
                for name in folders:
                    moved = uuid.uuid4().hex
                    with contextlib.suppress(OSError):
                        os.rename(name, moved, src_dir_fd=here, dst_dir_fd=top)
                        waiting.append(moved)
                folders.clear()
    finally:
        os.close(top)


def _open_up(name: str, here: int) -> bool:
    """Whether it is a folder, and no link to one: then its owner may do anything with it."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            os.chmod(name, 0o700, dir_fd=here)
            return True
    return False


def _age_of(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.fstat(descriptor).st_ino == os.stat(path).st_ino
    except FileNotFoundError:
        return False


def _dump_spec(spec: KernelSpec) -> dict[str, Any]:
    value = dataclasses.asdict(replace(spec, secret_env={}, env=dict(spec.env)))
    del value["secret_env"]
    return value


def _load_mount(value: Mapping[str, Any]) -> Mount:
    return Mount(**{**value, "file_systems": tuple(value.get("file_systems", ()))})


def _load_spec(value: Any) -> KernelSpec:
    fields = dict(value)
    for name in ("command", "cpus", "memory_nodes", "devices", "ports"):
        fields[name] = tuple(fields[name])
    fields["groups"] = tuple(fields.get("groups", ()))
    fields["labels"] = Labels(**fields["labels"])
    fields["mounts"] = tuple(_load_mount(mount) for mount in fields["mounts"])
    fields["share"] = GpuShare(**fields["share"]) if fields.get("share") else None
    fields["files"] = tuple(File(**file) for file in fields.get("files", ()))
    fields["restart"] = RestartRule(**fields["restart"])
    return KernelSpec(**fields)
