"""What is expensive to make or fetch is kept under the user's cache directory, made once even when tests run
in parallel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.harness.labs import off_the_clock

_KEPT_SECONDS = 7 * 24 * 3600
PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "mke2fs": "e2fsprogs",
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "docker-registry": "docker-registry",
    "curl": "curl",
    "mkfs.xfs": "xfsprogs",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "initdb": "postgresql",
    "postgres": "postgresql",
    "systemd-nspawn": "systemd-container",
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "chromium-headless-shell": "chromium-headless-shell",
    "chromium": "chromium",
    "gpg": "gnupg",
    "gpgconf": "gnupg",
    "gpgv": "gpgv",
}


class LabUnavailable(Exception):
    """The lab cannot be had here; the words say why and what would help."""


def folder() -> Path:
    """The lab's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "bai-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Only one process of this user at a time."""
    with (folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder `name` of the cache; `make` writes it to the path it is given, which then gets its
    name at once.
    """
    path = folder() / name
    with off_the_clock(), alone(name):
        if not path.exists():
            draft = folder() / f".{name}.{os.getpid()}"
            try:
                make(draft)
                draft.rename(path)
            finally:
                if draft.is_dir():
                    shutil.rmtree(draft)
                else:
                    draft.unlink(missing_ok=True)
    return path


def forget_unused(used: Path, pattern: str) -> None:
    """Folders of the cache like this one, which is in use, that were not used for a week."""
    with contextlib.suppress(OSError):
        os.utime(used)
    for other in folder().glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - other.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(other)


def tool(name: str) -> str:
    """The path of a program; raises LabUnavailable. In CI, as root, a missing one is installed."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None and os.environ.get("CI") and os.geteuid() == 0 and shutil.which("apt-get"):
        with alone("apt"):
            command(["apt-get", "update", "-qq"])
            wanted = sorted(set(PACKAGES.values()))
            command(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted])
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise LabUnavailable(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return found


def command(argv: Sequence[str], *, cwd: Path | None = None, timeout: float = 300) -> str:
    """The output of a command; raises LabUnavailable with its last line when it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=environment,
            timeout=timeout,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabUnavailable(f"{argv[0]}: {error}") from None
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise LabUnavailable(f"{' '.join(argv[:2])} failed: {last}")
    return done.stdout


def ran(argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
    """What came of a command that may fail: exit code, output and errors."""
    return subprocess.run(
        argv, check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout
    )
