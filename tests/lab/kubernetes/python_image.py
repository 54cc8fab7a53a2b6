"""An image with this machine's own Python, as Debian brings it: an archive that containerd imports."""

from __future__ import annotations

from pathlib import Path

from tests.lab.cache import kept
from tests.lab.kubernetes.images import full_name, write_archive
from tests.lab.python_root import PATH, python_root

PYTHON = "bai-lab-python:1"


def archive() -> Path:
    """Made once for each version of that Python. Raises LabUnavailable."""
    root = python_root()

    def write(draft: Path) -> None:
        write_archive(draft, full_name(PYTHON), root.read_bytes(), {"Env": [f"PATH={PATH}"]})

    return kept(f"kubernetes-image-{root.name}", write)
