"""Whether there can be a sandbox is found out by a trial, and a machine that has no time for it is no machine
without one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.process.sandbox import bubblewrap
from schemas.problems.errors.provider import ProviderUnavailable


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A bubblewrap that does this."""
    folder = Path(tempfile.mkdtemp(prefix="bai-bwrap-"))
    folder.chmod(0o755)  # Root tries as a user who has to come here.
    program = folder / "bwrap"

    def act(script: str) -> None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(folder))
    bubblewrap.sandbox_problem.cache_clear()
    yield act
    bubblewrap.sandbox_problem.cache_clear()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "why",
    [
        "bwrap: Creating new namespace failed: Resource temporarily unavailable",
        "bwrap: Can't fork: Cannot allocate memory",
    ],
)
def test_a_machine_that_is_short_of_something_is_asked_again(acts: Callable[[str], None], why: str) -> None:
    acts(f'echo "{why}" >&2; exit 1')
    with pytest.raises(ProviderUnavailable, match=why.rpartition(": ")[2]):
        bubblewrap.sandbox_problem()
    acts("exit 0")
    assert bubblewrap.sandbox_problem() == ""


def test_one_that_takes_too_long_is_asked_again(
    acts: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    acts("exec /bin/sleep 1000")
    with monkeypatch.context() as short:
        short.setattr(bubblewrap, "TRIAL_SECONDS", 0.2)
        with pytest.raises(ProviderUnavailable, match=r"not started within 0\.2 s"):
            bubblewrap.sandbox_problem()
    acts("exit 0")
    assert bubblewrap.sandbox_problem() == ""


def test_one_that_is_forbidden_stays_so(acts: Callable[[str], None]) -> None:
    acts('echo "bwrap: setting up uid map: Permission denied" >&2; exit 1')
    assert "user namespaces are forbidden" in bubblewrap.sandbox_problem()
    acts("exit 0")
    assert "user namespaces are forbidden" in bubblewrap.sandbox_problem()
