"""Plugins as pip would install them: a module, and metadata that names its entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class SitePackages:
    """A folder of distributions that is looked at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def install(self, module: str, text: str, group: str, name: str, target: str) -> None:
        """`target`: what in the module the entry point `name` stands for."""
        (self.folder / f"{module}.py").write_text(text)
        metadata = self.folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{target}\n")
        self.modules.add(module)


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SitePackages]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = SitePackages(folder)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)
