"""Docker engines keep the promises of every provider."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from providers.conformance.harness import ProviderHarness
from providers.conformance.suite import ProviderConformance
from providers.docker.container.runtime_files import FOLDERS
from providers.registry import open_provider
from tests.lab.cable import Cable
from tests.lab.docker import IMAGE, Engines
from tests.providers.docker.specs import UID


class DockerHarness(ProviderHarness):
    """Two engines; the way to the second one can be cut."""

    nodes = ("n1", "n2")
    fields = {"image": IMAGE, "uid": UID}  # noqa: RUF012

    def __init__(self, engines: Engines, folder: Path) -> None:
        self._engines = engines(2)
        one, two = self._engines
        self._cable = Cable(folder / "socket", two.socket)
        machines = [one.endpoint(), two.endpoint(socket=str(self._cable.path))]
        self.open = partial(open_provider, "docker", {}, machines=machines)

    def left(self, kernel_id: str) -> Sequence[str]:
        found = [
            line
            for engine in self._engines
            for what in (
                ("ps", "-a", "--format", "{{.Names}}"),
                ("volume", "ls", "--format", "{{.Name}} {{.Labels}}"),
            )
            for line in engine.docker(*what).splitlines()
        ]
        files = [str(path) for folder in FOLDERS for path in Path(folder).glob(f"*{kernel_id}*")]
        return [*(line for line in found if kernel_id in line), *files]

    @contextlib.contextmanager
    def cut(self, node: str) -> Iterator[None]:
        self._cable.cut()
        yield
        self._cable.mend()

    def close(self) -> None:
        self._cable.cut()
        for engine in self._engines:
            engine.wipe()


@pytest.fixture(scope="class")
def harness(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderHarness]:
    with contextlib.closing(DockerHarness(engines, tmp_path_factory.mktemp("cable"))) as found:
        yield found


@pytest.mark.xdist_group("docker")
class TestConformance(ProviderConformance):
    """All of them."""
