"""The attacks of native sessions again, as an ordinary user: continuous integration runs the suite as root.

Both meet other walls: what root starts becomes a user of its own, what others start is who they are, without
control groups or quotas.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from providers.process.sandbox import bubblewrap
from tests.security.exec_attacks import PYTHON

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534
PACKAGES = ("schemas", "planner", "providers", "reconciler", "bai", "tests")
ALLOWED = re.compile(
    "needs root|only root|no C compiler|the numbers of system calls are x86_64's|this machine shows no disk"
    "|this machine shows all of its /etc|the tests themselves run under a filter|no file handles here"
)
"""Why one of its tests may be skipped: what it needs is root's, or not of every machine."""
PATIENCE = 1700
"""Seconds for all attacks at once: minutes where nobody else computes."""
LEAST = {"host": 40, "scratch": 16, "subpath": 9}
"""Files of attacks, and how many of their tests pass at least. That of `bai exec` is both by itself."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(PATIENCE + 100),
    pytest.mark.xdist_group("ordinary-user"),  # They look at one run.
    pytest.mark.skipif(
        os.geteuid() != 0, reason="needs root: others have played these attacks as themselves"
    ),
    pytest.mark.skipif(
        bool(bubblewrap.sandbox_problem()), reason=bubblewrap.sandbox_problem() or "there is a sandbox"
    ),
]


@dataclass
class User:
    """An ordinary user with a copy of the repository, and a folder of its own."""

    repository: Path
    home: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        site = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PYTHONPATH": os.pathsep.join([str(self.repository), *sorted(site)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
        return subprocess.run(
            [*become, "env", *words],  # What setpriv itself executes, it finds with root's rights.
            env=env,
            cwd=self.repository,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def python(self) -> str:
        """One that it can run, and that takes what is installed for the tests."""
        version = sys.version_info[:2]
        probe = f"import sys, pytest, pydantic, xdist, yaml; assert sys.version_info[:2] == {version}"
        said = ""
        for program in (sys.executable, PYTHON):
            tried = self.run(program, "-c", probe)
            if tried.returncode == 0:
                return program
            said = f"{program}: {(tried.stdout.strip().splitlines() or ['it does not start'])[-1]}"
        pytest.skip(f"another user can run no Python {version[0]}.{version[1]} with these packages: {said}")


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed: cannot become another user")
    folder = Path(tempfile.mkdtemp(prefix="bai-ordinary-"))
    folder.chmod(0o755)
    made = User(folder / "repo", folder / "home")
    made.repository.mkdir()
    made.home.mkdir()
    # With what is compiled of it, as the user writes nothing there: each supervisor would compile it anew.
    half_written = shutil.ignore_patterns("*.pyc.*")
    for name in PACKAGES:
        shutil.copytree(REPOSITORY / name, made.repository / name, symlinks=True, ignore=half_written)
    shutil.copy(REPOSITORY / "pyproject.toml", made.repository)
    subprocess.run(["chmod", "-R", "a+rX", str(made.repository)], check=True)
    os.chown(made.home, NOBODY, NOBODY)
    yield made
    shutil.rmtree(folder)


@dataclass
class Played:
    """What became of the tests: the parts of pytest's report, and all that it said."""

    cases: list[ElementTree.Element]
    said: str


@pytest.fixture(scope="module")
def played(user: User) -> Played:
    """All files at once: what one waits for, others compute meanwhile."""
    report = user.home / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--timeout=240", f"--basetemp={user.home}/tests"]
    files = [f"tests/security/test_session_{name}.py" for name in LEAST]
    done = user.run(user.python(), "-m", "pytest", *options, f"--junitxml={report}", *files)
    assert done.returncode in (0, 1), done.stdout  # With 1, some failed: whose file it is says so.
    return Played(list(ElementTree.parse(report).iter("testcase")), done.stdout)


@pytest.mark.parametrize("name", LEAST)
def test_the_attacks_get_no_further(played: Played, name: str) -> None:
    cases = [case for case in played.cases if case.get("classname", "").endswith(f"test_session_{name}")]
    wrong = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert [case.get("name") for case in wrong] == [], played.said
    reasons = [skipped.get("message", "") for case in cases for skipped in case.iter("skipped")]
    assert [reason for reason in reasons if not ALLOWED.search(reason)] == []
    assert len(cases) - len(reasons) >= LEAST[name], played.said
