"""The root file system under all nodes: a Debian with systemd, sshd and what roles commonly need, made once a
month with mmdebstrap, with all upgrades until then, which no node has to make again."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import time
from pathlib import Path

from tests.lab.apt_mirror import SUITE, AptMirror
from tests.lab.apt_subset import KEYRING, keyring, public_key
from tests.lab.cache import LabUnavailable, folder, kept, tool
from tests.lab.spaces import within

PACKAGES = (
    "ca-certificates chrony dbus gpg gpgv iproute2 iptables kmod libpam-systemd logrotate nfs-common "
    "openssh-server pciutils procps python3-apt python3-minimal sudo systemd systemd-sysv"
)
_SCRIPT = """set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
useradd -m -s /bin/bash admin
rm -f /etc/ssh/ssh_host_* /etc/machine-id /etc/hostname
touch /etc/machine-id
systemctl -q enable ssh.service
apt-get -qq update
apt-get -qq -y dist-upgrade
apt-get clean
"""


class Base:
    """The folder `path`, made where it is not there yet (half a minute). Raises LabUnavailable.

    It is not removed by anybody until closed.
    """

    def __init__(self, mirror: AptMirror, namespace: str) -> None:
        key = public_key().read_bytes().hex()
        made_of = f"{PACKAGES} {_SCRIPT} {mirror.sources()} {key} {time.strftime('%Y-%m')}"
        name = f"node-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
        self._used = (folder() / f".{name}.used").open("w")
        fcntl.flock(self._used, fcntl.LOCK_SH)
        if not (folder() / name).exists():
            _remove_others(name)
        self.path = kept(name, lambda path: _make(path, mirror, namespace))

    def close(self) -> None:
        self._used.close()


def _remove_others(name: str) -> None:
    """Those that nobody uses any more."""
    for old in folder().glob("node-*"):
        with (folder() / f".{old.name}.used").open("w") as used, contextlib.suppress(BlockingIOError):
            if old.name != name:
                fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)


def _make(root: Path, mirror: AptMirror, namespace: str) -> None:
    include = PACKAGES.replace(" ", ",")
    words = ["--quiet", "--variant=minbase", f"--include={include}", f"--keyring={keyring()}"]
    source = f"{mirror.url}/{mirror.archives[0].name}"
    try:
        _run(within(namespace, [tool("mmdebstrap"), *words, SUITE, str(root), source]))
        (root / "etc/apt/sources.list").write_text(mirror.sources())
        # What verifies Debian's own index verifies the lab's, too.
        shutil.copy(public_key(), root / "etc/apt/trusted.gpg.d/lab.gpg")
        with (root / str(KEYRING).lstrip("/")).open("ab") as known:
            known.write(public_key().read_bytes())
        (root / "etc/dpkg/dpkg.cfg.d/lab").write_text("force-unsafe-io\n")
        _run(within(namespace, ["chroot", str(root), "/bin/sh", "-c", _SCRIPT]))
    finally:
        for mount in ("proc", "sys"):
            subprocess.run(["umount", "-l", str(root / mount)], check=False, capture_output=True)


def _run(argv: list[str]) -> None:
    done = subprocess.run(
        argv,
        check=False, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=900,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stdout.strip().splitlines() if line] or ["no word"]
        raise LabUnavailable(f"the nodes' file system could not be made: {lines[-1]}")
