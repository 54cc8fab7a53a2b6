"""A server over a fake world: real loop, real store, real HTTP where it matters."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import uvicorn
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from fastapi.testclient import TestClient

from bai.web.app import create_app
from bai.web.auth.roles import Access, Authenticator, Principal, Role, RoleBinding, StaticAccess
from bai.web.auth.static_tokens import TokenAuthenticator, hash_of
from bai.web.cluster_loops import ClusterLoops
from bai.web.connection_limits import ConnectionLimits
from bai.web.http_protocol import ServerConfig
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.webhook_verifier import WebhookVerifier
from reconciler.workspace.workspace import Workspace
from tests.reconciler.lab import BASE, NODE, new_store

PATIENCE = 120.0
WHO: Mapping[str, tuple[RoleBinding, ...]] = {
    "viewer": (RoleBinding(Role.viewer),),
    "operator": (RoleBinding(Role.operator),),
    "admin": (RoleBinding(Role.admin),),
    "ours": (RoleBinding(Role.viewer, frozenset({"p"})),),
    "operator-of-p": (RoleBinding(Role.operator, frozenset({"p"})),),
}
"""Their tokens are their names."""


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"still not: {what}")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def doors() -> list[Authenticator]:
    return [TokenAuthenticator((hash_of(name), Principal(name, given)) for name, given in WHO.items())]


@functools.cache
def _portal() -> BlockingPortal:
    """One event loop for the requests of all labs: else each request begins one, with threads of its own."""
    made: Future[BlockingPortal] = Future()

    async def run() -> None:
        async with BlockingPortal() as portal:
            made.set_result(portal)
            await portal.sleep_until_stopped()

    thread = threading.Thread(target=anyio.run, args=(run,), daemon=True)
    thread.start()
    portal = made.result()
    atexit.register(thread.join)
    atexit.register(portal.call, portal.stop, True)
    return portal


def asking(app: FastAPI, **options: Any) -> TestClient:
    """Somebody who asks it, by the event loop of all labs."""
    made = TestClient(app, **options)
    made.portal = _portal()
    return made


def waiting(app: FastAPI) -> FastAPI:
    """The same, whose pages wait for what is planned, however busy this machine is."""
    app.state.planning.patience = PATIENCE
    return app


class Lab:
    """One cluster of one process; `once` makes a pass, `start` runs the loop in its thread."""

    def __init__(
        self,
        folder: Path,
        *,
        access: Access | None = None,
        secret: str = "",
        node: str = NODE,
        **hub: float,
    ) -> None:
        """`node`: the document of a Node that it has two of."""
        self.folder = folder / "repo"
        self.folder.mkdir(parents=True)
        self.world = World(VirtualClock(1_800_000_000.0))
        self.lines: list[str] = []
        self.write("base", BASE)
        self.write("nodes", "---".join(node.format(name=name) for name in ("n1", "n2")))
        state = folder / "state" / "store.db"
        new_store(state).close()
        self.workspace = Workspace.open(self.folder, state=state, clock=self.world.clock)
        self.workspace.provider = FakeProvider(self.world)
        self.hub = ClusterLoops(**hub)
        self.loop = Loop(self.workspace, LoopOptions("loop", 30), log=self.lines.append)
        self.hub.add(self.loop)
        ears = WebhookVerifier(secret) if secret else None
        self.app: FastAPI = waiting(create_app(self.hub, access or StaticAccess(doors()), ears))
        self.client = asking(self.app)

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.yaml").write_text(text)

    def drop(self, name: str) -> None:
        (self.folder / f"{name}.yaml").unlink()

    def once(self) -> bool:
        self.world.clock.sleep(30)
        return self.loop.once()

    def get(self, path: str, token: str = "viewer", **options: Any) -> Any:
        """The JSON of an answer that must be good."""
        answer = self.client.get(path, headers=bearer(token), **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def status(self, path: str, token: str = "viewer", method: str = "GET", **options: Any) -> int:
        headers = bearer(token) if token else {}
        return self.client.request(method, path, headers=headers, **options).status_code

    def close(self) -> None:
        self.hub.halt()
        assert self.hub.join(PATIENCE)
        self.hub.close()


async def _short_sleep(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.01))


@contextlib.contextmanager
def serving(
    app: Any, listening: socket.socket | None = None, limits: ConnectionLimits | None = None
) -> Iterator[str]:
    """A real server on a port of its own; gives its address."""
    with (
        pytest.MonkeyPatch.context() as patch,
        listening or socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        # uvicorn looks ten times a second whether it is to end, and whether its connections have.
        patch.setattr("uvicorn.server.asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": _short_sleep}))
        server = uvicorn.Server(
            ServerConfig(app, limits or ConnectionLimits(), lifespan="off", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        wait_for(lambda: server.started, "the server is up")
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
