"""An app in a real container, through the real Caddy and the provider's own way to its port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from tests.bai.web.apps.app_lab import Gate, app_lab
from tests.lab.docker import Engines
from tests.providers.docker.specs import kernel, script
from tests.waiting import until

PORT = 7070
SITE = "echo found >/tmp/f; exec httpd -f -p {address}7070 -h /tmp"


@pytest.fixture
def provider(engines: Engines) -> Iterator[DockerProvider]:
    (engine,) = engines(1)
    made = open_docker({}, machines=[engine.endpoint()])
    yield made
    made.close()
    engine.wipe()


@pytest.mark.parametrize("address", ["", "127.0.0.1:"])
def test_a_container_is_reached_and_missed(provider: DockerProvider, tmp_path: Path, address: str) -> None:
    """On its own address, and where a program in it has to relay what is asked."""
    provider.create(script(SITE.format(address=address)))
    name = kernel().id

    def dial(_: str, port: int) -> object:
        return provider.dial(name, port)

    with app_lab(tmp_path, dial=dial, gate=Gate(PORT)) as lab:

        def answer() -> httpx.Response:
            return lab.ask(path="/f")

        until(lambda: answer().status_code == 200, "it answers")
        assert answer().text == "found\n"
        for _ in range(5):
            assert answer().status_code == 200
        provider.remove(name)
        until(lambda: answer().status_code == 503, "it is missed")
        assert name in lab.proxy.tunnels.failure("kernel", PORT)
