"""Providers on real engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from tests.lab.docker import Engines

Open = Callable[..., DockerProvider]


@pytest.fixture
def on_engines(engines: Engines) -> Iterator[Open]:
    """`on_engines(2)`: a provider on that many engines, which are empty again afterwards."""
    opened: list[DockerProvider] = []
    used = 0

    def open_on(count: int = 1, **options: object) -> DockerProvider:
        nonlocal used
        used = max(used, count)
        opened.append(open_docker(options, machines=[engine.endpoint() for engine in engines(count)]))
        return opened[-1]

    yield open_on
    for provider in opened:
        provider.close()
    for engine in engines(used):
        engine.wipe()
