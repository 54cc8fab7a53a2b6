"""Files of native sessions that would rather have others see, or write, something else."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.conformance.waiting import PATIENCE
from providers.machines.streams import StallWatch
from providers.process.interaction import files
from providers.process.linux import procfs
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from schemas.problems.errors.kernel import FilesRefused
from tests.harness.processes import having
from tests.providers.process.kernels import said, script
from tests.waiting import until

pytestmark = pytest.mark.real
LEADING_OUT = """
mkdir d && ln -s "{}" d/host && ln -s /../../../../../.. d/up && ln -s /proc/1/root d/magic
mkdir closed open && chmod 000 closed && chmod 1777 open && echo made && exec sleep 3000
"""


@pytest.fixture
def sandboxed(make: Callable[..., ProcessProvider]) -> ProcessProvider:
    if why := bubblewrap.sandbox_problem():
        pytest.skip(f"no sandbox here: {why}")
    return make("sandbox")


def names(provider: ProcessProvider, kernel: str, path: str) -> list[str]:
    return [each.name for each in provider.list_files(kernel, path, 1000).entries]


def test_no_link_leads_from_a_sandbox_to_the_machine(sandboxed: ProcessProvider, tmp_path: Path) -> None:
    provider = sandboxed
    (tmp_path / "canary").touch()
    tmp_path.chmod(0o777)
    spec = script(LEADING_OUT.format(tmp_path))
    provider.create(spec)
    said(provider, spec.id, b"made")
    inside = names(provider, spec.id, "/")
    assert names(provider, spec.id, "d/up") == names(provider, spec.id, "/../..") == inside
    for path in (
        "d/host",
        str(tmp_path),
        f"d/up{tmp_path}",
        f"/proc/1/root{tmp_path}",
        f"/proc/self/root{tmp_path}",
    ):
        with pytest.raises(FilesRefused):
            provider.list_files(spec.id, path, 10)
        with pytest.raises(FilesRefused):
            provider.write_file(spec.id, f"{path}/canary", 1, iter([b"x"]))
    assert (tmp_path / "canary").read_bytes() == b""
    for path in ("/etc/new", "/usr/new", "/proc/new", "/proc/self/fd/1", "/dev/null"):
        with pytest.raises(FilesRefused):
            provider.write_file(spec.id, path, 1, iter([b"x"]))


def test_what_the_session_may_not_read_is_not_read_for_it(sandboxed: ProcessProvider) -> None:
    provider = sandboxed
    spec = script(LEADING_OUT.format("/"))
    provider.create(spec)
    said(provider, spec.id, b"made")
    with pytest.raises(FilesRefused, match="Permission denied"):
        provider.list_files(spec.id, "closed", 10)
    assert names(provider, spec.id, "open") == []


def helpers() -> list[int]:
    """Processes that look for us into kernels, and theirs, whose numbers may be lower."""
    parents = {pid: procfs.parent(pid) for pid in having("enter_and_exec")}

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return list(filter(ours, parents))


def test_what_a_session_stops_holds_nobody_up(
    provider: ProcessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = threading.Event()

    class LateWatch(StallWatch):
        """Looks from then on: who begins slowly is not stopped."""

        def _watch(self) -> None:
            if stopped.wait(PATIENCE):
                super()._watch()

    monkeypatch.setattr(files, "StallWatch", LateWatch)
    monkeypatch.setattr(files, "STALL", 1.0)
    spec = script("echo made; exec sleep 3000")
    provider.create(spec)
    said(provider, spec.id, b"made")

    def data() -> Iterator[bytes]:
        yield b"x" * 100_000
        for pid in until(helpers, "it is being written"):
            os.kill(pid, signal.SIGSTOP)
        stopped.set()
        for _ in range(100):
            yield b"x" * 100_000

    with pytest.raises(FilesRefused, match="was stopped"):
        provider.write_file(spec.id, "large", 10_100_000, data())
    until(lambda: not helpers(), "nothing of it is left")
    assert "large" not in names(provider, spec.id, "")
