"""One node's engine: which version of its API is spoken, and the requests that kernels need."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from providers.docker.engine.connection import Dial
from providers.docker.engine.errors import NAME
from providers.docker.engine.facts import EngineFacts, parse_engine_info
from providers.docker.engine.http import EngineHttp, EngineRefusal, StreamedAnswer, quote_segment
from providers.docker.labels import ID
from providers.machines.base import Machine
from schemas.kinds.parts.docker import Docker
from schemas.problems.errors.provider import ProviderError

OLDEST, NEWEST = (1, 41), (1, 51)
"""Versions of the engine's API that are spoken: docker 20.10 has the oldest."""
NAME_OF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""What a container can be named."""
FRESH = 60.0
"""Seconds for which the engine's facts are taken as they were."""
SILENT = 10.0
"""Seconds for which an engine that did not answer is not asked again."""


class Engine:
    """The engine of one node. `dial` connects to it; `machine` gives the node's connection, made when it is
    first needed; `local`: the node is this machine; `has_machine`: it is reached by more
    than its engine's own address."""

    def __init__(
        self, node: str, options: Docker, dial: Dial, machine: Callable[[], Machine], *,
        local: bool = False, has_machine: bool = True,
    ) -> None:  # fmt: skip
        self.node = node
        self.local = local
        self.has_machine = has_machine
        self.options = options
        self.dial = dial
        self.http = EngineHttp(dial)
        self.lock = Lock()
        self.connect = machine
        self.image_lock = Lock()
        self.image_cache: dict[tuple[str, str], object] = {}
        """What images (by id) hold, under `image_lock`."""
        self.accounts_lock = Lock()
        self.account_folders: dict[tuple[str, str], str] = {}
        """`passwd` and `group` → the folder of the node that has them."""
        self.can_write_layers = True
        """Whether its node lets us write to containers' layers, as far as is known."""
        self._version = ""
        self._silent: tuple[float, TimeoutError] | None = None
        self._facts: tuple[float, EngineFacts] | None = None

    @property
    def machine(self) -> Machine:
        """The node itself: commands and files."""
        return self.connect()

    # requests

    def call(self, method: str, path: str, **given: Any) -> Any:
        """A request in the negotiated version. Raises EngineRefusal, OSError."""
        return self.http.call(method, f"/v{self.version}{path}", **given)

    def lines(self, path: str, **given: Any) -> list[bytes]:
        """The lines of an answer that comes to an end. Raises EngineRefusal, OSError."""
        return self.http.lines(f"/v{self.version}{path}", **given)

    def headers(self, path: str, **given: Any) -> Mapping[str, str]:
        """The head of an answer. Raises EngineRefusal, OSError."""
        return self.http.headers(f"/v{self.version}{path}", **given)

    def stream(self, method: str, path: str, **given: Any) -> StreamedAnswer:
        return self.http.stream(method, f"/v{self.version}{path}", **given)

    @property
    def version(self) -> str:
        """The newest version that both sides speak, `1.41`. Raises ProviderError when there is none."""
        with self.lock:
            if not self._version:
                answer = self._get_version()
                newest, oldest = (
                    _numbers(answer["ApiVersion"]),
                    _numbers(answer.get("MinAPIVersion") or "1.12"),
                )
                if newest < OLDEST or oldest > NEWEST:
                    why = (
                        f"node {self.node}: docker {answer.get('Version')} speaks API {answer['ApiVersion']}"
                    )
                    hint = "docker 20.10 (API 1.41) is the oldest that works"
                    raise ProviderError(provider=NAME, why=why, hint=hint)
                self._version = ".".join(map(str, min(newest, NEWEST)))
        return self._version

    def _get_version(self) -> dict[str, Any]:
        """An engine that hangs is waited for once, not once for each thing that a plan asks of it."""
        if self._silent is not None and time.monotonic() - self._silent[0] < SILENT:
            raise self._silent[1]
        try:
            answer: dict[str, Any] = self.http.call("GET", "/version", timeout=20)
        except TimeoutError as error:
            self._silent = (time.monotonic(), error)
            raise
        self._silent = None
        return answer

    def since(self, major: int, minor: int) -> bool:
        """Whether this version of the API is spoken."""
        return _numbers(self.version) >= (major, minor)

    @property
    def facts(self) -> EngineFacts:
        """What it can do; asked for again after a minute."""
        if self._facts is None or time.monotonic() - self._facts[0] > FRESH:
            self._facts = (time.monotonic(), parse_engine_info(self.call("GET", "/info", timeout=30)))
        return self._facts[1]

    @property
    def leaves_user_namespace(self) -> bool:
        """Whether its containers leave the user namespace that the engine has for them, while its images'
        files stay in it. A rootless engine is in one itself, which nobody leaves."""
        return self.options.userns == "host" and self.facts.remapped and not self.facts.rootless

    @property
    def maps_users(self) -> bool:
        """Whether its node knows its containers' users by other numbers."""
        return self.facts.remapped and not self.leaves_user_namespace

    def info(self) -> dict[str, Any]:
        """What the engine is, and which swarm it belongs to."""
        found: dict[str, Any] = self.call("GET", "/info", timeout=20)
        return found

    def containers(self, kernel: str = "") -> list[dict[str, Any]]:
        """All kernels, or one, in one cheap request."""
        query = {"all": True, "filters": {"label": [f"{ID}={kernel}" if kernel else ID]}}
        found: list[dict[str, Any]] = self.call("GET", "/containers/json", query=query)
        return found

    def inspect(self, name: str) -> dict[str, Any]:
        if not NAME_OF.fullmatch(name):  # Engines unquote a path before they read it.
            raise EngineRefusal(404, f"no container can be named {name}")
        found: dict[str, Any] = self.call("GET", f"/containers/{quote_segment(name)}/json")
        return found

    def remove_container(self, name: str) -> None:
        """Remove a container with its anonymous volumes, whatever it does."""
        self.call(
            "DELETE", f"/containers/{quote_segment(name)}", query={"force": True, "v": True}, timeout=120
        )

    def close(self) -> None:
        self.http.close()


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
