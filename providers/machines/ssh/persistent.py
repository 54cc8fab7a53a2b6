"""The connection to one node: made when it is needed, again when it broke, not too often when it fails."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import paramiko

from providers.machines.retry import with_backoff
from providers.machines.ssh.route import Route, ssh_route, user_config
from providers.machines.ssh.transport import Connection, open_connection
from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.plan import SecretMissing
from schemas.problems.errors.provider import ProviderUnavailable

if TYPE_CHECKING:
    from providers.machines.base import Endpoint

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds after a failed login before the next one is tried; doubled each time."""
CHANNEL_TIMEOUT = 30.0
"""Seconds for a channel to open."""
BROKEN = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises when a connection is of no use any more (a refused channel is not that)."""

Opening = Callable[[Connection], paramiko.Channel]


class PersistentConnection:
    """May be used by several threads. `on_connect` is called after each login."""

    def __init__(self, endpoint: Endpoint, on_connect: Callable[[], None] = lambda: None) -> None:
        self.node = endpoint.name
        self.used = 0.0
        """When a channel was last opened, or one that rested taken up, on the monotonic clock."""
        self._endpoint = endpoint
        self._on_connect = on_connect
        self._connecting = threading.Lock()
        self._state = threading.Lock()
        self._connection: Connection | None = None
        self._route: Route | None = None
        self._failure: tuple[float, float, ProviderUnavailable] | None = None
        self._open = 0
        self._resting = 0

    @property
    def connected(self) -> bool:
        connection = self._connection
        return connection is not None and connection.alive

    @property
    def route(self) -> Route:
        """Raises NodeUnreachable for settings that cannot be understood."""
        if self._route is None:
            try:
                self._route = ssh_route(self._endpoint, user_config())
            except (
                ValueError, KeyError, OSError, ImportError, paramiko.SSHException, SecretMissing,
            ) as error:  # fmt: skip
                raise NodeUnreachable(node=self.node, why=f"its SSH settings: {error}") from error
        return self._route

    def channel(self, opening: Opening) -> paramiko.Channel:
        """Open one, on a fresh connection if the one that stands turns out to be dead; give it back with
        `let_go`.

        Raises ChannelException when the far side refuses, and what `open_connection` raises.
        """
        with self._state:  # Before a login: others would count the connection it makes as idle, and close it.
            self._open += 1
            self.used = time.monotonic()
        try:
            return self._opened(opening)
        except BaseException:
            self._channel_closed()
            raise

    def _opened(self, opening: Opening) -> paramiko.Channel:
        for last in (False, True):
            connection = self._ensure_connected()
            try:
                return opening(connection)
            except BROKEN as error:
                if isinstance(error, paramiko.ChannelException):
                    raise
                connection.close()
                if last:
                    raise self.broken(error) from error
        raise AssertionError

    def rest(self, resting: bool) -> None:
        """A channel that is kept has nothing under way from now on, or has again."""
        with self._state:
            self._resting += 1 if resting else -1
            if not resting:
                self.used = time.monotonic()

    def let_go(self, channel: paramiko.Channel) -> None:
        with contextlib.suppress(*BROKEN):
            channel.close()
        self._channel_closed()

    def broken(self, error: BaseException | str) -> NodeUnreachable:
        return NodeUnreachable(node=self.node, why=str(error) or "the connection was lost")

    def close(self, *, if_idle: bool = False) -> bool:
        """Close the connection; with `if_idle` unless something travels on it. Channels that rest do not
        count: whoever keeps one finds it closed. Whether it is closed."""
        with self._state:
            if if_idle and self._open > self._resting:
                return False
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        return True

    def _channel_closed(self) -> None:
        with self._state:
            self._open -= 1

    def _ensure_connected(self) -> Connection:
        with self._connecting:
            connection = self._connection
            if connection is not None and connection.alive:
                return connection
            self._check_backoff()
            self.close()
            try:
                self._route = None  # Keys may be others than at the last login.
                found_route = self.route
                connection = with_backoff(lambda: open_connection(self.node, found_route), is_transient)
            except ProviderUnavailable as error:
                pause = min(self._failure[1] * 2, LONGEST_PAUSE) if self._failure else FIRST_PAUSE
                self._failure = (time.monotonic(), pause, error)
                raise
            self._failure = None
            self._connection = connection
        self._on_connect()
        return connection

    def _check_backoff(self) -> None:
        """Who failed a moment ago is not tried again at once: a plan asks a node many things."""
        if self._failure is not None and time.monotonic() < self._failure[0] + self._failure[1]:
            _raise_again(self._failure[2])


def is_transient(error: ProviderUnavailable) -> bool:
    """Whether a login that failed at once may succeed in a moment: not where a key or a name is wrong."""
    return error.retryable and not isinstance(error.__cause__, socket.gaierror)


def _raise_again(error: ProviderUnavailable) -> NoReturn:
    raise type(error)(hint=error.hint, **error.fields)
