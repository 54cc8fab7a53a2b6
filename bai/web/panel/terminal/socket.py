"""The WebSocket of a terminal.

At the upgrade it is asked where the page comes from (Origin), whose login it is (cookie), whether the page
was made for that login (form token, among the subprotocols, as no other header is a script's to set), and
whether they are an operator of the session's project; that again every few seconds. Then bytes go both ways,
and beside them `messages`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from bai.web.auth.roles import Role, require_role
from bai.web.cluster_loops import ClusterLoops, ServedCluster
from bai.web.dependencies import last_plan, project_view, require_visible
from bai.web.panel.access.forms import require_form_token
from bai.web.panel.access.same_origin import require_own_origin
from bai.web.panel.access.visitor import LoginNeeded, Visitor, current_visitor
from bai.web.panel.terminal import messages
from bai.web.panel.terminal.live_terminal import LiveTerminal
from bai.web.panel.terminal.opening import SESSION_PATH, KernelTerminal, open_kernel_terminal
from bai.web.panel.terminal.terminals import TerminalOwner, Terminals, TooManyTerminals
from bai.web.routes.logs import kernel_ids
from bai.web.streaming import call_in
from providers.required_abilities import require_terminals
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import NotAble
from schemas.values.resource_ref import identity_of

PROTOCOL = "bai-terminal"
FORM = "form."
"""Before the form token, as a subprotocol."""
PATIENCE = 30.0
"""Seconds for being let in, and for the first message after that."""


class Close(IntEnum):
    """Codes of ours with which a connection is closed, as the page knows them."""

    done = 1000
    bad_message = 4400
    login = 4401
    """The login counts no more, or may no more."""
    gone = 4404
    taken_over = 4409


class _Outcome(Enum):
    """What becomes of a terminal after its connection."""

    lost = "lost"
    left = "left"
    over = "over"
    refused = "refused"
    taken_over = "taken over"


@dataclass(frozen=True, slots=True)
class _Admitted:
    """Who has come, to which session."""

    cluster: ServedCluster
    visitor: Visitor
    project: str
    identity: str

    @property
    def owner(self) -> TerminalOwner:
        return TerminalOwner(
            self.visitor.principal.name, self.visitor.sealed, self.cluster.name, self.identity
        )


async def terminal_socket(socket: WebSocket) -> None:
    terminals: Terminals = socket.app.state.terminals
    try:
        async with asyncio.timeout(PATIENCE):
            try:
                admitted = await _admit(socket)
            except LoginNeeded:
                raise HTTPException(401, "log in first") from None
    except TimeoutError:
        return await _deny(socket, HTTPException(504, "this took too long"))
    except HTTPException as refusal:
        return await _deny(socket, refusal)
    await socket.accept(PROTOCOL)
    try:
        async with asyncio.timeout(PATIENCE):
            first = messages.read_first(await socket.receive_text())
    except (messages.BadMessage, TimeoutError, KeyError):
        return await socket.close(Close.bad_message)
    except WebSocketDisconnect:
        return
    if isinstance(first, messages.Resuming):
        await _join(socket, admitted, terminals, first.id, first.known, (first.rows, first.columns))
        return
    try:
        identifier = await _open(admitted, terminals, first)
    except (BaiError, HTTPException, TooManyTerminals) as error:
        why = str(error.detail) if isinstance(error, HTTPException) else str(error)
        await socket.send_text(messages.refused(why))
        return await socket.close(Close.done)
    await _join(socket, admitted, terminals, identifier, None, (first.rows, first.columns))


route = WebSocketRoute(SESSION_PATH, terminal_socket)


async def _deny(socket: WebSocket, refusal: HTTPException) -> None:
    headers = {"Cache-Control": "no-store"}
    await socket.send_denial_response(JSONResponse({"detail": refusal.detail}, refusal.status_code, headers))


async def _admit(socket: WebSocket) -> _Admitted:
    """Answers 401, 403, 404, 409 and 503; 404 for what is not theirs as for what is not there. Raises
    LoginNeeded."""
    require_own_origin(socket)
    visitor = await current_visitor(socket)
    offered = [name for name in socket.scope["subprotocols"] if name.startswith(FORM)]
    require_form_token(socket, offered[0].removeprefix(FORM) if offered else "")
    if PROTOCOL not in socket.scope["subprotocols"]:
        raise HTTPException(400, f"this speaks {PROTOCOL}")
    loops: ClusterLoops = socket.app.state.loops
    project, name = socket.path_params["project"], socket.path_params["name"]
    cluster, identity = (
        loops.clusters.get(socket.path_params["cluster"]),
        identity_of("Session", name, project),
    )
    if cluster is None:
        raise HTTPException(404, f"there is no {identity}")
    require_visible(project_view(cluster, visitor.principal), identity)
    if identity not in last_plan(cluster, visitor.principal)[1].existing:
        raise HTTPException(404, f"there is no {identity}")
    require_role(visitor.principal, Role.operator, project)
    if not cluster.loop.leads():
        raise HTTPException(409, f"{cluster.loop.leader() or 'nobody'} leads: terminals are opened there")
    try:
        require_terminals(cluster.loop.workspace.provider, cluster.loop.workspace.cluster)
    except NotAble as error:
        raise HTTPException(409, str(error)) from None
    return _Admitted(cluster, visitor, project, identity)


async def _open(admitted: _Admitted, terminals: Terminals, asked: messages.Opening) -> str:
    """Its id. Raises TooManyTerminals, BaiError; answers 404."""
    cluster, who = admitted.cluster, admitted.visitor.principal
    done, actual, _ = last_plan(cluster, who)
    there = actual.existing.get(admitted.identity)
    kernel = kernel_ids(there, recorded=bool(done.by)).get(asked.kernel)
    if kernel is None:
        raise HTTPException(404, f"{admitted.identity} has no container {asked.kernel}")
    wanted = KernelTerminal(
        admitted.identity, asked.kernel, kernel, asked.program == "attach", (asked.rows, asked.columns)
    )
    terminals.take_place(who.name)
    opening = asyncio.ensure_future(
        run_in_threadpool(open_kernel_terminal, terminals, admitted.owner, cluster.loop.workspace, wanted)
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # It goes on in its thread, and nobody waits for it.
        opening.add_done_callback(lambda done: _forget_opened(terminals, done))
        raise


def _forget_opened(terminals: Terminals, opening: asyncio.Future[str]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        terminals.end(opening.result(), "the server ended")


async def _join(
    socket: WebSocket,
    admitted: _Admitted,
    terminals: Terminals,
    identifier: str,
    known: int | None,
    size: tuple[int, int],
) -> None:
    """Until the connection or the terminal ends; then it is seen to what becomes of the terminal."""
    terminal = terminals.find(identifier, admitted.owner)
    if terminal is None:
        await socket.close(Close.gone)
        return
    connection = _Connection(socket, terminal, admitted, terminals.limits.recheck)
    outcome = _Outcome.lost
    try:
        outcome = await connection.run(identifier, known, size)
    finally:
        _settle(terminals, identifier, connection, outcome)
    codes = {_Outcome.taken_over: Close.taken_over, _Outcome.refused: Close.login}
    if outcome is not _Outcome.lost:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # It may have closed it first.
            await socket.close(codes.get(outcome, Close.done))


def _settle(terminals: Terminals, identifier: str, connection: _Connection, outcome: _Outcome) -> None:
    silence = connection.terminal.hang_up(connection.on_news)
    if not silence:
        return  # Another connection has it.
    if outcome is not _Outcome.lost:
        why = "it was left" if outcome is _Outcome.left else "the login may no more"
        terminals.end(identifier, why)
        return

    def give_up() -> None:
        if connection.terminal.is_silent_since(silence):
            terminals.end(identifier, "the connection was lost")

    asyncio.get_running_loop().call_later(terminals.limits.grace, give_up)


class _Connection:
    """One page, as long as its connection lasts."""

    def __init__(
        self, socket: WebSocket, terminal: LiveTerminal, admitted: _Admitted, recheck: float
    ) -> None:
        self.terminal = terminal
        self._socket, self._admitted, self._recheck = socket, admitted, recheck
        self._loop = asyncio.get_running_loop()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self.on_news: Callable[[], None] = self._on_news

    def _on_news(self) -> None:
        call_in(self._loop, self._news.set)
        call_in(self._loop, self._room.set)

    async def run(self, identifier: str, known: int | None, size: tuple[int, int]) -> _Outcome:
        start, end, received = self.terminal.listen(self.on_news, known)
        self.terminal.resize(*size)
        try:
            await self._socket.send_text(messages.opened(identifier, start, end, received))
        except WebSocketDisconnect:
            return _Outcome.lost
        tasks = [asyncio.ensure_future(each) for each in (self._send(start), self._receive(), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task for task in tasks if task in done).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, at: int) -> _Outcome:
        told = -1
        try:
            while True:
                self._news.clear()
                if not self.terminal.is_heard_by(self.on_news):
                    return _Outcome.taken_over
                news = self.terminal.news(at)
                if news.taken != told:
                    told = news.taken
                    await self._socket.send_text(messages.taken(told))
                if news.piece:
                    at += len(news.piece)
                    await self._socket.send_bytes(news.piece)
                elif news.end is not None:
                    await self._socket.send_text(messages.ended(news.end.code, news.end.why))
                    return _Outcome.over
                else:
                    await self._news.wait()
        except (WebSocketDisconnect, RuntimeError):
            return _Outcome.lost

    async def _receive(self) -> _Outcome:
        while True:
            message = await self._socket.receive()
            if message["type"] != "websocket.receive":
                return _Outcome.lost
            if data := message.get("bytes"):
                await self._type(data)
                continue
            await asyncio.sleep(0)  # Many small ones do not keep everybody else from their turn.
            if (outcome := await self._hear(message.get("text") or "")) is not None:
                return outcome

    async def _hear(self, text: str) -> _Outcome | None:
        """What ends the connection, or nothing."""
        try:
            said = messages.read_later(text)
        except messages.BadMessage:
            await self._socket.close(Close.bad_message)
            return _Outcome.lost
        if isinstance(said, messages.Leave):
            return _Outcome.left
        if isinstance(said, messages.Resize):
            self.terminal.resize(said.rows, said.columns)
        else:
            self.terminal.acknowledge(said.bytes)
        return None

    async def _type(self, data: bytes) -> None:
        """Waits while the program takes nothing, and nothing more is read from the page meanwhile."""
        while True:
            self._room.clear()
            if self.terminal.type(data):
                return
            await self._room.wait()

    async def _watch(self) -> _Outcome:
        """Whoever may no more is out, with the program that they have opened."""
        while await self._may_still():
            await asyncio.sleep(self._recheck)
        return _Outcome.refused

    async def _may_still(self) -> bool:
        try:
            visitor = await current_visitor(self._socket)
            require_role(visitor.principal, Role.operator, self._admitted.project)
        except (LoginNeeded, HTTPException):
            return False
        return True
