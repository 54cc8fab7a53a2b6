"""bai's image, built by its own recipe: deploy/container/Containerfile, in a real Docker engine that reaches
nothing. Its base is a Debian of the lab's, and its packages are the locked ones as files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.lab import wheels
from tests.lab.bare_machine import DEBIAN_12, root_of
from tests.lab.cache import LabUnavailable, folder, kept, tool
from tests.lab.docker import Engine, Engines, why_not
from tests.lab.wheels import ROOT, SHIPPED, listed

IMAGE = "bai-lab-serve:1"
RECIPE = "deploy/container/Containerfile"
_BASE, _PYTHON = "bai-lab-python:1", "3.11"
_KEPT_SECONDS = 3600
_LOCK = ROOT / "requirements" / "server.txt"
_SOURCES = (
    *(f"{name}/" for name in SHIPPED), "roles/", "examples/clusters/dgx-h100/", "scripts/wheel_roles.py",
    "deploy/container/", "requirements/server.txt", "pyproject.toml", "README.md", "LICENSE",
)  # fmt: skip
"""What the recipe makes the image of: beginnings of paths."""
_BUILD = ("--network", "none", "--build-arg", f"BASE={_BASE}", "--build-arg", "OFFLINE=1")


def archive() -> Path:
    """The image of the working copy as it is now, as `docker save` writes it; built when something in it has
    changed. Older ones go when nobody has asked for them for an hour. Raises LabUnavailable."""
    files = [name for name in listed() if name.startswith(_SOURCES) and (ROOT / name).is_file()]
    base = root_of(DEBIAN_12)
    digest = hashlib.sha256(f"{base.name} {_BUILD}".encode())
    for name in sorted(files):
        digest.update(f"\0{name}\0".encode() + (ROOT / name).read_bytes())
    made = kept(f"serve-image-{digest.hexdigest()[:16]}.tar", lambda draft: _build(draft, files, base))
    os.utime(made)
    for other in folder().glob("serve-image-*.tar"):
        with contextlib.suppress(OSError):
            if time.time() - other.stat().st_mtime > _KEPT_SECONDS:
                other.unlink()
    return made


def _build(draft: Path, files: list[str], base: Path) -> None:
    if lacks := why_not():
        raise LabUnavailable(lacks)
    packages = wheels.from_lock(_LOCK, python=_PYTHON)
    with (
        tempfile.TemporaryDirectory(prefix="bai-serve-image-") as place,
        contextlib.closing(Engines()) as lab,
    ):
        context = Path(place)
        for name in files:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, context / name)
        shutil.copytree(packages, context / "wheels")
        (engine,) = lab(1)
        _import(engine, base)
        # git is in the base; nothing of these tests goes over ssh.
        recipe = ("-f", str(context / RECIPE), *_BUILD, "--build-arg", "PACKAGES=")
        engine.docker("build", "--quiet", *recipe, "-t", IMAGE, place, timeout=900)
        engine.docker("save", "-o", str(draft), IMAGE, timeout=300)


def _import(engine: Engine, root: Path) -> None:
    """A root file system as an image."""
    docker = [tool("docker"), "-H", f"unix://{engine.socket}", "import", "-", _BASE]
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packed:
        done = subprocess.run(docker, stdin=packed.stdout, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabUnavailable(f"docker import: {done.stderr.strip()}")
