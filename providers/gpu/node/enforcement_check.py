"""Whether a part of a GPU holds whoever has it: one is taken as a session's would be, by a process of its
own, and given back.

The answer has what was seen, for `providers.gpu.enforcement_rules` to judge. `problem` says why nothing could
be tried; `failed`, how trying ended otherwise than it should.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

from providers.gpu.node import hami, hami_lock, mps, probe
from providers.gpu.node.daemon import LOG, PIPE, SERVER, MpsFailed

HOLDER = "bai-enforcement-check"
"""The kernel in whose name the part is taken. What a check that was killed left is swept like a kernel's."""
SECONDS = 30
"""For one process; a driver or a daemon that hangs takes all of them."""
PATIENCE = 15.0
"""For the process of a second user, which answers at once or when the first user's has ended."""
RELUCTANT = 5.0
"""Seconds that a process has to end once it was killed: one that waits in the driver does not."""
LARGEST = 65536
"""Bytes that are read of what a process prints."""
SPARE = 1 << 30
"""Bytes that must be free beside what is taken, for contexts."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO_DAEMON = "/nonexistent"
_SEEN = "/mnt"
"""Where the client sees what lies in a folder that only root may enter, as bai's state of root's does: a
session has it mounted, too."""
_MOUNT = """set -e
mount -t tmpfs -o mode=0755 bai "$1"; shift
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$2"; else : >"$2"; fi
    mount --bind "$1" "$2"; shift 2
done
shift; exec "$@"
"""


class Impossible(Exception):
    """Why nothing can be tried now."""


class Failed(Exception):
    """How a process that was to try it ended."""


class TookTooLong(Failed):
    """It was ended."""


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """`means`, `candidates` (each with `gpu`, `env`, `percent`, `memory`, `within`, `beyond` and `shared`),
    `client` (its source), `user` (whose it is), `shm`, `root`, `hami_root` and `libraries`. The first
    candidate that nobody computes on is tried; with `shared`, one beside whose sharers there is room."""
    try:
        with _alone(Path(request["root"]) / "check.lock"):
            chosen = _choose(request["means"], request["candidates"], Path(request["root"]))
            return {"gpu": chosen["gpu"], **_try(request, chosen)}
    except Impossible as why:
        return {"problem": str(why)}
    except OSError as error:
        return {"problem": f"{error.strerror or error} at {error.filename}" if error.filename else str(error)}


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One check at a time on a node. Raises Impossible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # For nobody else's eyes: whoever can open it can lock it.
    with os.fdopen(os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise Impossible("another check is running there") from None
        yield


def _choose(means: str, candidates: list[dict[str, Any]], root: Path) -> dict[str, Any]:
    """Raises Impossible."""
    if means == "mig":
        return candidates[0]  # an instance's memory is its own
    working = _computing()
    free, problem = probe.query("--query-gpu=uuid,memory.free")
    if problem:
        raise Impossible(problem)
    room = {row[0]: _mebibytes(row[1]) for row in free}
    reasons = []
    for each in candidates:
        gpu = each["gpu"]
        if each["shared"] and not mps.status({"root": str(root)}).get(gpu, {}).get("holders"):
            reasons.append(f"{gpu} is shared by something else than MPS")
        elif gpu in working and not each["shared"]:
            reasons.append(f"process {working[gpu]} computes on {gpu}")
        elif room.get(gpu, 0) < each["beyond"] + SPARE:
            reasons.append(f"{gpu} has {room.get(gpu, 0) >> 20} MiB free")
        else:
            return each
    raise Impossible("; ".join(reasons[:3]))


def _computing() -> dict[str, str]:
    """GPU → a process that computes on it. MPS's own server, which stays when its last client has gone, does
    not. Raises Impossible."""
    rows, why = probe.query("--query-compute-apps=gpu_uuid,pid")
    if why:
        raise Impossible(why)
    return {gpu: process for gpu, process in rows if not _is_server(process)}


def _is_server(process: str) -> bool:
    try:
        words = Path(f"/proc/{int(process)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False
    return any(os.path.basename(word) == SERVER.encode() for word in words[:2])


def _mebibytes(cell: str) -> int:
    """Bytes."""
    number = cell.split(" ", maxsplit=1)[0]
    return int(number) << 20 if number.isdigit() else 0


def _try(request: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    base = {"CUDA_VISIBLE_DEVICES": chosen["gpu"]}
    take = {"within": chosen["within"], "beyond": chosen["beyond"]}
    try:
        if request["means"] == "mig":
            return {"part": _run(request, take, base)}
        whole = _run(request, {}, {**base, PIPE: _NO_DAEMON})
        with _part(request, chosen) as (env, mounts):
            env = {**base, **chosen["env"], **env}
            found: dict[str, Any] = {"whole": whole, "part": _run(request, take, env, mounts)}
            if request["means"] == "mps" and not os.geteuid():
                found["second_user"] = _second_user(request, env, mounts)
            return found
    except (Failed, MpsFailed) as error:
        return {"failed": str(error)}


Mounts = dict[str, str]
"""Where the client sees what: a path of the node → a path of the client's."""


@contextlib.contextmanager
def _part(request: dict[str, Any], chosen: dict[str, Any]) -> Iterator[tuple[dict[str, str], Mounts]]:
    """The part as a session has it: its environment, and what is mounted for it. Raises MpsFailed."""
    if request["means"] == "hami":
        with _hami(request) as held:
            mounts = _hidden(held["library"], held["cache"])
            library, cache = (mounts.get(path, path) for path in (held["library"], held["cache"]))
            yield hami.variables(library, cache), mounts
        return
    order = {
        "root": request["root"], "gpu": chosen["gpu"], "kernel": HOLDER, "percent": chosen["percent"],
        "memory": chosen["memory"], "shm": request["shm"],
    }  # fmt: skip
    try:
        held = mps.hold(order)
        mounts = _hidden(held["pipe"], held["log"])
        env = {name: mounts.get(path, path) for name, path in ((PIPE, held["pipe"]), (LOG, held["log"]))}
        yield env, {**mounts, **({held["shm"]: "/dev/shm"} if held["shm"] else {})}
    finally:
        mps.drop({"root": request["root"], "kernel": HOLDER})


def _hidden(*paths: str) -> Mounts:
    """Those that the client's user cannot reach, as it is not root. Who is not root is the client himself."""
    if os.geteuid():
        return {}
    return {
        path: f"{_SEEN}/{os.path.basename(path)}"
        for path in paths
        if not all(parent.stat().st_mode & 0o001 for parent in Path(path).parents)
    }


@contextlib.contextmanager
def _hami(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    order = {"root": request["hami_root"], "kernel": HOLDER, "libraries": request["libraries"]}
    with hami_lock.shared_lock():
        try:
            held = hami.hold(order)
            if "failed" in held:
                raise Failed(held["failed"])
            yield held
        finally:
            hami.drop(order)


def _run(
    request: dict[str, Any], order: dict[str, int], env: dict[str, str], mounts: Mounts | None = None,
    seconds: float = 0.0,
) -> dict[str, Any]:  # fmt: skip
    """What the client found, in its time (0: what is usual). Raises Failed, Impossible."""
    code, out, err = _run_bounded(_command(request, order, env, mounts or {}), seconds or SECONDS)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    said = " ".join(err.split())[-300:]
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise Failed(f"the process {ended}" + (f": {said}" if said else "")) from None
    if "failed" in found:
        raise Failed(str(found["failed"]))
    return {**found, "said": said}


def _command(
    request: dict[str, Any], order: dict[str, int], env: dict[str, str], mounts: Mounts
) -> list[str]:
    """The client as somebody who is not root, as sessions are: nothing that is preloaded runs before. Raises
    Impossible."""
    order = {"seconds": 2 * SECONDS, **order}
    python = shutil.which("python3", path=_PATH) or sys.executable
    words = [f"{name}={value}" for name, value in env.items()]
    command = ["env", *words, python, "-I", "-S", "-c", request["client"], json.dumps(order)]
    if os.geteuid():
        return command
    user = str(request["user"])
    if shutil.which("setpriv") is None:
        raise Impossible("setpriv is not installed, by which root becomes somebody else")
    command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]
    if mounts:
        pairs = [path for pair in mounts.items() for path in pair]
        mounted = ["sh", "-c", _MOUNT, "sh", _SEEN, *pairs, "--"]
        command = ["unshare", "--mount", "--propagation", "private", *mounted, *command]
    return command


def _second_user(request: dict[str, Any], env: dict[str, str], mounts: Mounts) -> str:
    """Whether processes of two users are served side by side (`served`), or the second's wait (`waits`);
    empty where that was not seen."""
    other = {**request, "user": request["user"] - 1}
    with tempfile.TemporaryFile() as errors:
        first = subprocess.Popen(
            _command(request, {"context": 1, "linger": 1}, env, mounts), env=_environment(), cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
        assert first.stdin is not None and first.stdout is not None
        try:
            ready = select.select([first.stdout], [], [], SECONDS)[0]
            if not ready or b"multiprocessors" not in os.read(first.stdout.fileno(), LARGEST):
                return ""
            try:
                _run(other, {"context": 1}, env, mounts, PATIENCE)
            except TookTooLong:
                return "waits"
            except Failed:
                return ""
            return "served"
        finally:
            _kill(first)
            first.stdin.close()
            first.stdout.close()


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended: one that waits in the driver does not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(RELUCTANT)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment() -> dict[str, str]:
    env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": _PATH, **env}


def _run_bounded(argv: list[str], seconds: float) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that is given its time and no more. Raises TookTooLong."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv, env=_environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            more = "" if _kill(process) else ", and lets nobody end the process"
            raise TookTooLong(f"the driver did not answer within {seconds} s{more}") from None
        texts = []
        for file in (out, err):
            file.seek(max(0, file.seek(0, os.SEEK_END) - LARGEST))
            texts.append(file.read().decode(errors="replace"))
    return code, texts[0], texts[1]
