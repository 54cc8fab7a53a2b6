"""A machine as somebody new to bai has it: a distribution's root file system with git, make, python3-venv and
certificates, and an ordinary user on it, who reaches what this machine reaches.

It is no booted one: what is typed runs in a mount and process namespace of its own, and ends with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.apt_mirror import apt_proxy
from tests.lab.cache import LabUnavailable, command, folder, kept, tool
from tests.lab.spaces import what_lacks
from tests.lab.wheels import ROOT, listed

PACKAGES = "apt,git,make,python3-venv,ca-certificates"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_USER = 1234
_MONTH = 31 * 86400
_PASSED_ON = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "NO_PROXY",
    "HTTPS_PROXY",
)
"""How this machine reaches an index of Python packages; proxies in small letters, too."""
_ENTER = """set -eu
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=755 run "$1/run"
exec chroot --userspec={user}:{user} --groups={user} "$1" /usr/bin/env -i "${{@:2}}"
"""


@dataclass(frozen=True)
class Distribution:
    """Where a distribution's packages are, and the keys that sign them."""

    name: str
    suite: str
    archive: str
    components: str
    keyring: str
    """The file of keys, as `/usr/share/keyrings` has it."""
    keys: tuple[str, str] = ("", "")
    """The archive's package with that file, for where this machine has not got it; and its SHA-256."""


DEBIAN_12 = Distribution(
    "Debian 12", "bookworm", "http://deb.debian.org/debian", "main", "debian-archive-keyring.gpg"
)
UBUNTU_24_04 = Distribution(
    "Ubuntu 24.04", "noble", "http://archive.ubuntu.com/ubuntu", "main,universe",
    "ubuntu-archive-keyring.gpg",
    (
        "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb",
        "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8",
    ),
)  # fmt: skip


class BareMachine:
    """Made in `place`, which is removed with everything in it on `close`. Raises LabUnavailable."""

    def __init__(self, distribution: Distribution, place: Path) -> None:
        if why := what_lacks("mmdebstrap", "unshare"):
            raise LabUnavailable(why)
        self.folder = place
        self.root = place / "root"
        base = root_of(distribution)
        _require_index()
        place.mkdir()
        subprocess.run(["cp", "-a", "--reflink=auto", base, self.root], check=True)
        for name in ("etc/resolv.conf", "etc/hosts", CERTIFICATES):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"/{name}", self.root / name)
        self._put_checkout()

    def _put_checkout(self) -> None:
        """The files of this working copy, as a clone has them."""
        there = self.root / "home/user/bai"
        for name in listed():
            if (ROOT / name).is_file():
                (there / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, there / name, follow_symlinks=False)
        subprocess.run(["chown", "-R", f"{_USER}:{_USER}", there], check=True)

    def type(self, script: str, answers: str = "") -> tuple[int, str]:
        """Exit code and output of a script for bash that the user runs in the checkout; `answers` is what is
        typed when something is asked."""
        (self.root / "home/user/typed").write_text(f"cd ~/bai\n{script}")
        words = [*(f"{name}={value}" for name, value in _environment().items()), "bash", "/home/user/typed"]
        enter = ["bash", "-c", _ENTER.format(user=_USER), "enter", str(self.root), *words]
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
        with tempfile.TemporaryFile("w+") as said, _keyboard(answers) as stdin:
            done = subprocess.run(
                [tool("unshare"), *spaces, "--", *enter],
                stdin=stdin, stdout=said, stderr=subprocess.STDOUT, timeout=1800, check=False,
            )  # fmt: skip
            said.seek(0)
            return done.returncode, said.read()

    def close(self) -> None:
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def _keyboard(answers: str) -> Iterator[int]:
    keyboard, end = pty.openpty()
    try:
        os.write(keyboard, answers.encode())
        yield end
    finally:
        os.close(keyboard)
        os.close(end)


def _environment() -> Mapping[str, str]:
    ours = {
        name: os.environ[name] for each in _PASSED_ON for name in (each, each.lower()) if name in os.environ
    }
    if "SSL_CERT_FILE" in os.environ:
        ours["SSL_CERT_FILE"] = f"/{CERTIFICATES}"
    path = "/usr/local/bin:/usr/bin:/bin"
    return {"HOME": "/home/user", "USER": "user", "PATH": path, "LANG": "C.UTF-8", "COLUMNS": "200", **ours}


def root_of(distribution: Distribution) -> Path:
    """The root file system, made once a month, where its archive can be had. Raises LabUnavailable."""
    made_of = f"{distribution} {PACKAGES} {time.strftime('%Y-%m')}"
    name = f"bare-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"

    def make(root: Path) -> None:
        keyring = _keyring(distribution)
        words = [f"--include={PACKAGES}", f"--components={distribution.components}", f"--keyring={keyring}"]
        source = (distribution.suite, str(root), distribution.archive)
        command([tool("mmdebstrap"), "--quiet", "--variant=minbase", *words, *source], timeout=900)
        words = ["useradd", "-m", "-u", str(_USER), "-s", "/bin/bash", "user"]
        subprocess.run(["chroot", str(root), *words], check=True)

    for old in folder().glob("bare-*"):
        with contextlib.suppress(FileNotFoundError):  # Somebody else forgets the same.
            if time.time() - old.stat().st_mtime > _MONTH:
                shutil.rmtree(old, ignore_errors=True)
    _fetch(distribution, f"dists/{distribution.suite}/InRelease")
    return kept(name, make)


def _keyring(distribution: Distribution) -> Path:
    here = Path("/usr/share/keyrings") / distribution.keyring
    path, digest = distribution.keys
    if here.exists() or not path:
        return here

    def make(draft: Path) -> None:
        package = _fetch(distribution, path)
        if hashlib.sha256(package).hexdigest() != digest:
            raise LabUnavailable(f"{path} is not what it was")
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "keys.deb").write_bytes(package)
            command([tool("dpkg-deb"), "-x", f"{place}/keys.deb", f"{place}/keys"])
            shutil.copyfile(f"{place}/keys{here}", draft)

    return kept(f"keys-{digest[:16]}.gpg", make)


def _fetch(distribution: Distribution, path: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(apt_proxy()))
    try:
        with opener.open(f"{distribution.archive}/{path}", timeout=30) as answer:
            found: bytes = answer.read()
            return found
    except OSError as error:
        raise LabUnavailable(f"{distribution.archive} cannot be had: {error}") from None


def _require_index() -> None:
    """Raises LabUnavailable where Python packages cannot be had."""
    with tempfile.TemporaryDirectory() as place:
        command([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, "click"])
