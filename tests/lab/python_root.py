"""A root file system of busybox and this machine's own Python, as Debian brings it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.lab.cache import LabUnavailable, kept
from tests.lab.docker import image_tar

PATH = "/usr/bin:/bin"
"""Of programs in it."""
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


def python_root() -> Path:
    """A tar, made once for each version of that Python. Raises LabUnavailable."""
    if not _PROGRAM.exists():
        raise LabUnavailable("there is no /usr/bin/python3")
    program = _PROGRAM.resolve()
    root = kept("docker-image-1.tar", image_tar)

    def write(draft: Path) -> None:
        shutil.copyfile(root, draft)
        with tarfile.open(draft, "a") as made:
            made.add(program, "usr/bin/python3")
            for library in _libraries(program):
                made.add(library.resolve(), str(library).lstrip("/"))
            made.add(Path("/usr/lib", program.name), f"usr/lib/{program.name}", filter=_needed)

    return kept(f"{program.name}-{int(program.stat().st_mtime)}.tar", write)


def _libraries(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return [Path(word) for word in said.split() if word.startswith("/")]


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = entry.name.split("/")
    return (
        None if _LEFT_OUT.intersection(parts) or any(each.startswith("config-") for each in parts) else entry
    )
