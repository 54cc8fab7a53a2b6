"""JupyterLab as a folder that runs wherever it is mounted: for sessions that are opened in a browser.

    folder = jupyter_folder()  # with PYTHONPATH and the like of `ENVIRONMENT`

Installed once from a list with hashes, for the system's Python, which sandboxes see, too.
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.lab import cache, wheels
from tests.lab.cache import LabUnavailable, command

LOCK = Path(__file__).with_name("jupyter.txt")
PYTHON = Path("/usr/bin/python3")


def jupyter_folder() -> Path:
    """Raises LabUnavailable."""
    version = _python_version()
    name = f"jupyter-{sha256(f'{version} {LOCK.read_text()}'.encode()).hexdigest()[:16]}"
    found = cache.folder() / name
    return found if found.exists() else cache.kept(name, lambda folder: _install(folder, version))


def environment(folder: str) -> dict[str, str]:
    """With which `python3 -m jupyterlab` runs, where the folder is mounted there."""
    share = f"{folder}/share/jupyter"
    return {
        "PYTHONPATH": folder,
        "JUPYTER_PATH": share,
        "JUPYTER_CONFIG_PATH": f"{folder}/etc/jupyter",
        "JUPYTERLAB_DIR": f"{share}/lab",
    }


def _install(folder: Path, version: str) -> None:
    fetched = wheels.from_lock(LOCK, python=version)
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--quiet"]
    words = ["--no-index", "--no-deps", "--no-compile", "--only-binary=:all:", f"--python-version={version}"]
    command([*pip, *words, f"--target={folder}", *map(str, sorted(fetched.glob("*.whl")))], timeout=900)


def _python_version() -> str:
    words = [str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise LabUnavailable(f"{PYTHON}: {error}") from None
