"""This project as a Python package, and what it needs as files that can be carried to where no index is."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from tests.lab import cache
from tests.lab.cache import command

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("schemas", "planner", "providers", "reconciler", "bai")
"""The packages in it."""
LOCK = ROOT / "requirements" / "dev.txt"
_MONTH = 31 * 86400
_CALLED = re.compile(r"^ *(?:- )?([a-z_]+\.[a-z_]+)\.[a-z_]+:", re.MULTILINE)
_SOURCES = {*SHIPPED, "roles", "examples", "scripts", "pyproject.toml", "README.md", "LICENSE"}


def build(folder: Path) -> Path:
    """The wheel of the working copy as it is now, in that folder. Raises CalledProcessError."""
    source = folder / "source"
    for name in listed():
        if (ROOT / name).is_file() and name.split("/")[0] in _SOURCES:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    hidden = ("PYTHON", "COV_", "BAI_")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)],
        env={k: v for k, v in os.environ.items() if not k.startswith(hidden)} | {"HOME": str(folder)},
        cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
    )  # fmt: skip
    shutil.rmtree(source)
    return next(folder.glob("*.whl"))


def listed() -> list[str]:
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return [name for name in command(words, cwd=ROOT).split("\0") if name]


def requirements(wheel: Path) -> list[str]:
    """What a wheel says that it needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def needed(wheel: Path, extras: str, *, python: str) -> Path:
    """A folder of the lab's cache with the wheels that `wheel[extras]` needs, itself left out, for Linux with
    that Python and a C library of 2.36 or later: those that are locked, or with BAI_TEST_LEVEL=newest the
    month's newest. Fetched once a month, and when others are needed.

    Raises LabUnavailable.
    """
    machine = platform.machine()
    newest = os.environ.get("BAI_TEST_LEVEL") == "newest"
    locked = [] if newest else ["--require-hashes", f"--constraint={LOCK}"]
    lock = LOCK.read_text() if locked else ""
    made_of = [*sorted(requirements(wheel)), extras, python, machine, time.strftime("%Y-%m"), lock]
    name = f"wheels-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}"

    def fetch(folder: Path) -> None:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        asked = f"{wheel.name.split('-')[0]}[{extras}] @ {wheel.as_uri()}#sha256={digest}"
        _download(folder, python, *locked, asked)
        (folder / wheel.name).unlink()

    _forget_old()
    return cache.kept(name, fetch)


def lean(wheels: Path) -> Path:
    """The same folder, whose `ansible` has only the collections that roles name: it brings a hundred, and pip
    unpacks and compiles 450 MB that nobody calls. Kept in the lab's cache."""
    [whole] = wheels.glob("ansible-[0-9]*.whl")
    wanted = _collections_of_roles()
    made_of = hashlib.sha256(repr((wheels.name, wanted)).encode()).hexdigest()

    def left_out(name: str) -> bool:
        parts = name.split("/")
        return parts[0] == "ansible_collections" and len(parts) > 3 and ".".join(parts[1:3]) not in wanted

    def thin(folder: Path) -> None:
        shutil.copytree(wheels, folder)
        (folder / whole.name).unlink()
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(folder / whole.name, "x") as new:
            for entry in old.infolist():
                if left_out(entry.filename):
                    continue
                content = old.read(entry)
                if entry.filename.endswith(".dist-info/RECORD"):
                    lines = content.decode().splitlines(keepends=True)
                    content = "".join(line for line in lines if not left_out(line.lstrip('"'))).encode()
                new.writestr(entry, content)

    return cache.kept(f"wheels-lean-{made_of[:16]}", thin)


def _collections_of_roles() -> list[str]:
    """As `ansible.posix`, of what tasks call."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "roles").rglob("*.yml"))
    return sorted({name for text in texts for name in _CALLED.findall(text)})


def from_lock(lock: Path, *, python: str) -> Path:
    """A folder of the lab's cache with the wheels that a list with hashes names, for Linux with that Python.
    Raises LabUnavailable."""
    made_of = [python, platform.machine(), lock.read_text()]
    name = f"wheels-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}"
    _forget_old()
    return cache.kept(name, lambda folder: _download(folder, python, "--require-hashes", f"-r{lock}"))


def locked(name: str, *, python: str) -> Path:
    """The wheel of one locked package, in the lab's cache, for Linux with that Python. Raises
    LabUnavailable."""
    found = re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, name
    digest = hashlib.sha256(repr((found[0], python, platform.machine())).encode()).hexdigest()

    def fetch(folder: Path) -> None:
        folder.mkdir()
        wanted = folder / "wanted.txt"
        wanted.write_text(found[0])
        _download(folder, python, "--require-hashes", "--no-deps", f"-r{wanted}")
        wanted.unlink()

    _forget_old()
    [wheel] = cache.kept(f"wheels-{digest[:16]}", fetch).glob("*.whl")
    return wheel


def _download(folder: Path, python: str, *asked: str) -> None:
    machine = platform.machine()
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download", "--quiet"]
    words = ["--only-binary=:all:", f"--python-version={python}", *platforms, f"--dest={folder}"]
    command([*pip, *words, f"--platform=manylinux2014_{machine}", *asked], timeout=900)


def _forget_old() -> None:
    for old in cache.folder().glob("wheels-*"):
        with contextlib.suppress(FileNotFoundError):  # Somebody else forgets the same.
            if time.time() - old.stat().st_mtime > _MONTH:
                shutil.rmtree(old, ignore_errors=True)
