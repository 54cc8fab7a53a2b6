"""An image with this machine's own Python, as Debian brings it: an archive that containerd imports."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.lab.cache import LabUnavailable, kept
from tests.lab.docker import image_tar
from tests.lab.kubernetes.images import full_name, write_archive

PYTHON = "bai-lab-python:1"
_PROGRAM = Path("/usr/bin/python3")
_LEFT_OUT = {
    "__pycache__",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "test",
    "tkinter",
}


def archive() -> Path:
    """Made once for each version of that Python. Raises LabUnavailable."""
    if not _PROGRAM.exists():
        raise LabUnavailable("there is no /usr/bin/python3")
    program = _PROGRAM.resolve()
    root = kept("docker-image-1.tar", image_tar)

    def write(draft: Path) -> None:
        layer = io.BytesIO(root.read_bytes())
        with tarfile.open(fileobj=layer, mode="a") as made:
            made.add(program, "usr/bin/python3")
            for library in _libraries(program):
                made.add(library.resolve(), str(library).lstrip("/"))
            made.add(Path("/usr/lib", program.name), f"usr/lib/{program.name}", filter=_needed)
        write_archive(draft, full_name(PYTHON), layer.getvalue(), {"Env": ["PATH=/usr/bin:/bin"]})

    return kept(f"kubernetes-image-{program.name}-{int(program.stat().st_mtime)}.tar", write)


def _libraries(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return [Path(word) for word in said.split() if word.startswith("/")]


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = entry.name.split("/")
    return (
        None if _LEFT_OUT.intersection(parts) or any(each.startswith("config-") for each in parts) else entry
    )
