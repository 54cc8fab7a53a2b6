"""A hostile session and whoever enters it: `bai exec` and `bai cp` give it nothing of the operator's.

Each attack is played whole by `exec_attacks.py`, as root and as an ordinary user, in a real sandbox.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.exec_attacks import ATTACKS, PYTHON

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A copy of the packages that anybody can read: another user plays the attacks, too."""
    folder = Path(tempfile.mkdtemp(prefix="bai-attacked-"))
    folder.chmod(0o755)
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("schemas", "providers", "tests/security"):
        shutil.copytree(REPOSITORY / name, folder / "repo" / name, ignore=skipped)
    shutil.copy(REPOSITORY / "tests" / "waiting.py", folder / "repo" / "tests")
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def _as(user: str) -> list[str]:
    """A command's beginning that makes it run as `root` or as an ordinary `user`."""
    if user == "root":
        if os.geteuid() != 0:
            pytest.skip("needs root")
        return []
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed: cannot become another user")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]


@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("attack", list(ATTACKS))
def test_the_session_gets_hold_of_nothing(place: Path, attack: str, user: str) -> None:
    prefix = _as(user)
    newer = [PYTHON, "-c", "import sys; assert sys.version_info >= (3, 11)"]
    if not os.path.exists(PYTHON) or subprocess.run(newer, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip(f"{PYTHON} is not 3.11 or newer: sessions see no other Python")
    own = Path(tempfile.mkdtemp(prefix="operator-", dir=place))
    if prefix:
        os.chown(own, NOBODY, NOBODY)
    done = subprocess.run(
        [*prefix, PYTHON, "-B", str(place / "repo/tests/security/exec_attacks.py"), attack, str(own)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "HOME": str(own)},
        cwd=own,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    if "skip" in found:
        pytest.skip(found["skip"])
    assert found["got"] == [] or found["got"] == {}, found
    assert found["ran"], found
