"""An image with what multi-node work needs: Debian with Open MPI, OpenSSH and Python, made once with
mmdebstrap.

It holds a user `user` (1000) beside root, and `/opt/allreduce.py`.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.lab.cache import LabUnavailable, command, kept, tool
from tests.lab.docker import Engine

MPI = "bai-lab-mpi:1"
_PACKAGES = "openssh-server,openssh-client,openmpi-bin,python3"
_SUITE = "bookworm"
_LEFT_OUT = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl", "usr/share/i18n",
    "usr/share/zoneinfo", "usr/share/icons", "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log", "dev", "proc", "sys", "boot",
)  # fmt: skip
_PROGRAM = Path(__file__).parent / "allreduce.py"


def load(engine: Engine) -> None:
    """Import the image into an engine. Raises LabUnavailable."""
    if engine.docker("images", "-q", MPI).strip():
        return
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    engine.docker("import", "-c", 'CMD ["/bin/sh"]', "-c", path, str(image_tar()), MPI, timeout=300)


def without_warnings(output: str) -> str:
    """Open MPI's launcher puts each child into a process group of its own, as the child does itself, and
    warns when the child was first: harmless, and a matter of luck."""
    lines = output.splitlines(keepends=True)
    return "".join(line for line in lines if "plm:rsh: Warning: setpgid(" not in line)


def image_tar() -> Path:
    """The root file system as a tar."""
    made = hashlib.sha256(f"{_PACKAGES} {_LEFT_OUT} {_PROGRAM.read_text()}".encode()).hexdigest()[:16]
    return kept(f"docker-mpi-{made}.tar", _make)


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bai-mpi-") as folder:
        root = Path(folder) / "root"
        words = ["--quiet", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root)]
        command([tool("mmdebstrap"), *words], timeout=900)
        _finish(root)
        with tarfile.open(path, "w") as archive:
            archive.add(root, ".", filter=_wanted)


def _finish(root: Path) -> None:
    (root / "opt/allreduce.py").write_bytes(_PROGRAM.read_bytes())
    words = ["useradd", "-m", "-u", "1000", "-s", "/bin/sh", "user"]
    done = subprocess.run(["chroot", str(root), *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise LabUnavailable(f"useradd: {done.stderr.strip()}")


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = entry.name.removeprefix("./")
    return None if name in _LEFT_OUT or entry.isdev() else entry
