"""Without root: what can be enforced is, what cannot is said, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
NOBODY = 65534
PYTHON = "/usr/bin/python3"


@pytest.fixture
def place() -> Iterator[Path]:
    """A copy of the packages that anybody can read, and a folder that the other user owns."""
    folder = Path(tempfile.mkdtemp(prefix="bai-nobody-"))
    folder.chmod(0o755)
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("schemas", "providers", "tests/providers/process"):
        shutil.copytree(REPOSITORY / name, folder / "repo" / name, ignore=skipped)
    shutil.copy(REPOSITORY / "tests" / "waiting.py", folder / "repo" / "tests")
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    (folder / "home").mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "home", NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def _prefix() -> list[str]:
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed: cannot become another user")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]


@pytest.mark.parametrize("mode", ["whole", "groups", "bare"])
def test_an_ordinary_user_can_run_kernels(place: Path, mode: str) -> None:
    if subprocess.run(
        [PYTHON, "-c", "import sys; assert sys.version_info >= (3, 11)"], check=False
    ).returncode:
        pytest.skip(f"{PYTHON} is not 3.11 or newer: another user needs a Python of the system")
    script = place / "repo" / "tests" / "providers" / "process" / "scenario.py"
    done = subprocess.run(
        [*_prefix(), PYTHON, str(script), str(place / "home" / "state"), mode],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "HOME": str(place / "home")},
        cwd=place,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["uid"] != 0
    if not found["versions"]:
        assert {"cpuset", "memory", "pids"} <= found["missing"].keys()
        assert all(found["missing"].values())
    if mode != "whole":
        assert "filesystem-isolation" in found["missing"]
