"""What it takes to connect to ports of a container: each time its engine is asked, and once its node."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from providers.docker.engine.engine import Engine
from providers.docker.interaction.forward import ROUTES
from providers.machines.base import Done
from providers.machines.local import LocalMachine
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
NAME = kernel().id
CALLERS = 6


def test_who_connects_at_a_time_asks_the_node_once(on_engines: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all clients of a service do when a drain has changed the cluster's documents."""
    provider = on_engines()
    provider.create(script("httpd -p 7070 -h /tmp && echo up; exec sleep 1000"))
    until(lambda: b"".join(provider.logs(NAME)) == b"up\n", "it listens")
    asked, inspected, another = list[str](), list[str](), threading.Event()
    run, inspect = LocalMachine.run, Engine.inspect

    def counted(machine: LocalMachine, argv: Sequence[str], **given: Any) -> Done:
        if ROUTES in argv:
            asked.append(argv[-1])
            if len(asked) > 1:
                another.set()
            another.wait(1.0)
        return run(machine, argv, **given)

    def looked(engine: Engine, name: str) -> dict[str, Any]:
        inspected.append(name)
        return inspect(engine, name)

    monkeypatch.setattr(LocalMachine, "run", counted)
    monkeypatch.setattr(Engine, "inspect", looked)
    with ThreadPoolExecutor(CALLERS) as pool:
        for stream in pool.map(lambda _: provider.dial(NAME, 7070), range(CALLERS)):
            stream.close()
    assert len(asked) == 1
    assert inspected == [NAME] * 2 * CALLERS, "to connect, and to run what relays on a lab's network"
