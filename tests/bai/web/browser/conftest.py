from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.controller.figure_recorder import FigureRecorder
from tests.bai.web.browser.site import Shots, Site, SpokenLogs
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.rendering import LABELLED_NODE, two_projects
from tests.lab.browser import Chromium


def _served(folder: Path, chromium: Chromium) -> Iterator[Site]:
    lab = Lab(folder, node=LABELLED_NODE)
    lab.loop.add_listener(FigureRecorder(lab.loop).record)
    logs = SpokenLogs(lab.world)
    lab.workspace.provider = logs
    two_projects(lab)
    with serving(lab.app, chromium.listening()) as address:
        made = Site(lab, address, logs, chromium)
        yield made
        made.close()
        logs.end()
    lab.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Site]:
    """Two projects; tests leave it as it is."""
    yield from _served(tmp_path_factory.mktemp("site"), chromium)


@pytest.fixture
def own_site(tmp_path: Path, chromium: Chromium) -> Iterator[Site]:
    """The same, for a test that changes it."""
    yield from _served(tmp_path, chromium)


@pytest.fixture
def shots() -> Shots:
    return Shots(os.environ.get("BAI_SHOTS", ""))
