"""Real processes, in every mode this machine offers, and the proof that nothing of them is left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.process.linux import cgroup
from providers.process.provider import ProcessProvider
from providers.process.sandbox import bubblewrap
from tests.providers.process.kernels import MODES, groups_of, running_of
from tests.waiting import until


@pytest.fixture
def make() -> Iterator[Callable[..., ProcessProvider]]:
    """Providers on roots of their own; at the end every kernel is removed and nothing may be left."""
    made: list[ProcessProvider] = []
    folder = Path(tempfile.mkdtemp(prefix="bai-process-"))

    def maker(mode: str = "groups", **options: Any) -> ProcessProvider:
        if mode == "sandbox" and bubblewrap.sandbox_problem():
            pytest.skip(f"no sandbox here: {bubblewrap.sandbox_problem()}")
        root = options.pop("root", folder / f"root{len(made)}")
        provider = ProcessProvider(root, **{**MODES[mode], **options})
        made.append(provider)
        return provider

    yield maker
    try:
        for provider in made:
            _clear(provider)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(provider: ProcessProvider) -> None:
    for kernel_id in [*provider.root.ids(), *provider.observe().unlabelled]:
        if kernel_id.startswith("s-"):
            provider.remove(kernel_id)
    until(lambda: not running_of(provider), "no process is left")

    def left() -> bool:
        """A supervisor that is just ending keeps its group for as long as that takes on a loaded machine."""
        provider._tidy_when_empty()
        return bool(groups_of(provider))

    until(lambda: not left(), "no control group is left")


@pytest.fixture(params=list(MODES))
def provider(request: pytest.FixtureRequest, make: Callable[..., ProcessProvider]) -> ProcessProvider:
    """One provider, in each mode in turn."""
    made = make(request.param)
    assert isinstance(made, ProcessProvider)
    return made


@pytest.fixture
def grouped(make: Callable[..., ProcessProvider]) -> ProcessProvider:
    """A provider whose kernels are in control groups with all controllers; skipped where there are none."""
    made = make("groups")
    found = {name for group in made.host.groups for name in group["controllers"]}
    lacking = sorted(set(cgroup.CONTROLLERS) - found)
    if lacking:
        pytest.skip(f"no control group for {', '.join(lacking)}: {dict(made.host.missing)}")
    assert isinstance(made, ProcessProvider)
    return made
