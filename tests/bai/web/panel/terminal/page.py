"""What a terminal's page does, without a browser: logs in, connects, types, and reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from bai.web.connection_limits import ConnectionLimits
from tests.bai.web.lab import Lab, serving
from tests.reconciler.lab import session

OWN = "/clusters/here/sessions/p/own/terminal"
PATIENCE = 60.0
SIZE = {"rows": 24, "columns": 80}
OPEN = {"kind": "open", "kernel": "main1", "program": "shell", **SIZE}


@contextlib.contextmanager
def served(lab: Lab, limits: ConnectionLimits | None = None) -> Iterator[Served]:
    """With a session that runs, and has a terminal."""
    lab.write("own", session("own", "tty: true"))
    lab.once()
    lab.once()
    with contextlib.ExitStack() as connections, serving(lab.app, limits=limits) as address:
        yield Served(lab, address, connections)
    lab.app.state.terminals.close()


@dataclass
class Served:
    """A server, and who is logged in there."""

    lab: Lab
    address: str
    connections: contextlib.ExitStack
    cookies: dict[str, str] = field(default_factory=dict)

    def log_in(self, who: str) -> str:
        """The cookie, sealed; another one each time."""
        headers = {"Sec-Fetch-Site": "same-origin"}
        said = {"credential": who}
        answer = httpx.post(
            f"{self.address}/login", data=said, headers=headers, verify=False, timeout=PATIENCE
        )
        assert answer.status_code == 303, answer.text
        return str(answer.cookies["bai"]).strip('"')

    def cookie(self, who: str) -> str:
        if who not in self.cookies:
            self.cookies[who] = self.log_in(who)
        return self.cookies[who]

    def token(self, sealed: str) -> str:
        return str(self.lab.app.state.panel.sealer.form_token(sealed))

    def connect(
        self, who: str = "operator", path: str = OWN, *, sealed: str | None = None, **given: Any
    ) -> ClientConnection:
        """`given` in place of what a page of ours sends: `origin`, `token`; `bearer` beside it. Raises
        InvalidStatus."""
        cookie = (self.cookie(who) if who else "") if sealed is None else sealed
        token = given.pop("token", None) or self.token(cookie)
        headers = {"Cookie": f"bai={cookie}"} if cookie else {}
        if "bearer" in given:
            headers["Authorization"] = f"Bearer {given.pop('bearer')}"
        options: dict[str, Any] = {"origin": self.address, "max_size": 2**20, "compression": None, **given}
        connecting = connect(
            self.address.replace("http", "ws") + path,
            subprotocols=["bai-terminal", f"form.{token}"],  # type: ignore[list-item]
            additional_headers=headers,
            open_timeout=PATIENCE,
            close_timeout=1,
            **options,
        )
        return self.connections.enter_context(connecting)

    def page(self, who: str = "operator", first: dict[str, Any] | None = None, **given: Any) -> Page:
        """One that has opened a terminal, unless `first` says otherwise."""
        made = Page(self.connect(who, **given))
        made.tell(first or OPEN)
        return made


class Page:
    """One connection. `known`: bytes of output since the terminal's beginning."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.output = b""
        self.said: list[dict[str, Any]] = []
        self.known = 0
        self.shows = True
        """Whether it says what it has shown."""

    @property
    def id(self) -> str:
        return str(self.heard("opened")["id"])

    def tell(self, message: object) -> None:
        self.connection.send(message if isinstance(message, str) else json.dumps(message))

    def type(self, text: bytes) -> None:
        self.connection.send(text)

    def step(self) -> None:
        """One message. Raises ConnectionClosed, TimeoutError."""
        came = self.connection.recv(timeout=PATIENCE)
        if isinstance(came, str):
            self.said.append(json.loads(came))
            if self.said[-1]["kind"] == "opened":
                self.known = self.said[-1]["start"]
            return
        self.output += came
        self.known += len(came)
        if self.shows:
            with contextlib.suppress(ConnectionClosed):  # What was sent before its end is still to be read.
                self.tell({"kind": "shown", "bytes": self.known})

    def heard(self, kind: str) -> dict[str, Any]:
        """The last message of this kind, as soon as there is one."""
        while not (found := [each for each in self.said if each["kind"] == kind]):
            self.step()
        return found[-1]

    def until(self, text: bytes) -> None:
        while text not in self.output:
            self.step()

    def closed(self) -> int:
        """The code with which the server closes, once it does."""
        try:
            while True:
                self.step()
        except ConnectionClosed as end:
            assert end.rcvd is not None, "without a word"
            return end.rcvd.code

    def lose(self) -> None:
        """The line goes dead."""
        self.connection.socket.close()
