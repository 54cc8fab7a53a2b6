"""Native processes keep the promises of every provider, in every mode of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from providers.conformance.harness import PYTHON_SERVER, ProviderHarness
from providers.conformance.suite import ProviderConformance
from providers.process.linux import cgroup, procfs
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from providers.registry import open_provider
from tests.harness.ports import free_port
from tests.providers.process.kernels import MODES, UID


class ProcessHarness(ProviderHarness):
    echo_server = PYTHON_SERVER
    fields = {"uid": UID}  # noqa: RUF012

    def __init__(self, root: Path, mode: str) -> None:
        self.open = partial(open_provider, "process", MODES[mode], state_root=root)
        self.port = free_port()
        self._provider = ProcessProvider(root, **MODES[mode])

    def left(self, kernel_id: str) -> Sequence[str]:
        root = self._provider.root
        # Unlike `glob`, it takes no offence at folders of others that vanish meanwhile.
        files = [
            os.path.join(folder, name)
            for folder, folders, names in os.walk(root.path)
            for name in (*folders, *names)
            if name.startswith(kernel_id)
        ]
        groups = [each["path"] for each in cgroup.below(list(self._provider.host.groups), kernel_id)]
        processes = [f"process {pid}" for pid in procfs.marked(root.mark(kernel_id))]
        return [*files, *processes, *filter(os.path.exists, groups)]


@pytest.fixture(scope="class", params=list(MODES))
def harness(request: pytest.FixtureRequest) -> Iterator[ProviderHarness]:
    if request.param == "sandbox" and (why := bubblewrap.sandbox_problem()):
        pytest.skip(f"no sandbox here: {why}")
    folder = Path(tempfile.mkdtemp(prefix="bai-process-"))
    yield ProcessHarness(folder / "root", request.param)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.xdist_group("process-conformance")
class TestConformance(ProviderConformance):
    """No node can be cut off: there is only this machine."""
