"""Serves the demo, by the server that everything else is served by."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import yaml

from bai.web.auth.roles import Role
from bai.web.auth.static_tokens import new_token
from bai.web.connection_limits import ConnectionLimits
from bai.web.demo.demo_cluster import DemoCluster
from bai.web.panel.proposals.settings import NO_PROPOSALS
from bai.web.server import Server, ServerSettings
from providers.machines.signals import signal_handlers

PACE = 60.0
SEED = 7
_ROLES = (Role.operator, Role.admin)


def serve_demo(
    listen: str, limits: ConnectionLimits, say: Callable[[str], None], *, pace: float = PACE, seed: int = SEED
) -> bool:
    """Until a signal says stop; nothing stays. False when something was left undone. Raises BaiError."""
    try:
        with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="bai-demo-") as name:
            folder = Path(name)
            with _signals_that_wait() as is_ended:
                tokens = _write_access(folder / "access.yaml")
                demo = DemoCluster(folder, time.time(), seed)
                server = Server(
                    demo.settings, demo.origin,
                    ServerSettings(listen, folder / "access.yaml", "", "", "", limits, NO_PROPOSALS),
                    demo.loop_settings,
                )  # fmt: skip
                (cluster,) = server.clusters.values()
                demo.take_over(cluster.loop)
                say("Ten hours of work on sixteen machines that exist only here are gone through ...")
                demo.live_past(cluster.loop, is_ended)
            if is_ended():
                return True
            demo.go_on(cluster, pace, time.monotonic)
            for line in _welcome(server.address, tokens, pace):
                say(line)
            try:
                return server.run()
            finally:
                demo.day.provider.end_logs()
    except KeyboardInterrupt:
        return True


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Whatever is done just then, files do not stay; the server, once it runs, hears the first two itself. A
    terminal that is closed ends it, too."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with signal_handlers((signal.SIGINT, signal.SIGTERM), end), signal_handlers((signal.SIGHUP,), pass_on):
        yield


@contextmanager
def _signals_that_wait() -> Iterator[Callable[[], bool]]:
    """Whether one has come that ends all: what is being done then is done first. A git that is killed may
    write on while its files are removed, and a class that is being made makes another error of it."""
    came = threading.Event()
    with signal_handlers((signal.SIGINT, signal.SIGTERM), lambda number, frame: came.set()):
        yield came.is_set


def _write_access(file: Path) -> dict[Role, str]:
    """Everybody may look; gives the tokens of those who may do more."""
    made = {role: new_token() for role in _ROLES}
    lines = [{"name": role.name, "sha256": digest, "role": role.name} for role, (_, digest) in made.items()]
    file.write_text(yaml.safe_dump({"anonymous": "viewer", "tokens": lines}))
    return {role: token for role, (token, _) in made.items()}


def _welcome(address: str, tokens: dict[Role, str], pace: float) -> Iterator[str]:
    yield ""
    yield f"  http://{address}/"
    yield ""
    yield f"Nobody has to log in to look. Who does, at http://{address}/login, may do more:"
    yield from (f"  as {role.name:<9} {token}" for role, token in tokens.items())
    yield f"An hour passes in {3600 / pace:.0f} seconds. A simulation: nothing runs. Ctrl-C ends it."
