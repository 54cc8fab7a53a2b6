"""What systemd is told (sd_notify(3)): that we are ready, that we live, that we stop.

With `Type=notify` and `WatchdogSec=`, the process is started anew when a loop that is at work has shown no
life for too long, or has broken: what lives is not this thread but what it asks.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from schemas.values.naturals import parse_natural

READY = "READY=1"
ALIVE = "WATCHDOG=1"
STOPPING = "STOPPING=1"
ROOM_TIMEOUT = 30.0
"""Seconds in which who listens, and is behind, takes a datagram: without READY=1 a unit is never up."""


class SystemdNotifier:
    """Datagrams to whoever started us; none where nobody asked for them."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        micros = environment.get("WATCHDOG_USEC", "")
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.period = (parse_natural(micros) or 0) / 1e6 if ours and self._address else 0.0
        """Seconds after which silence counts as death; 0: nobody watches."""

    def say(self, *lines: str) -> None:
        """Never raises: who does not listen does not matter."""
        if not self._address:
            return
        where = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(ROOM_TIMEOUT)
            out.sendto("\n".join(lines).encode(), where)


@contextlib.contextmanager
def systemd_watchdog(stuck: Callable[[], str], notifier: SystemdNotifier | None = None) -> Iterator[None]:
    """Ready from now on; alive while `stuck` has nothing to say; at the end, stopping."""
    notifier = notifier or SystemdNotifier()
    over = threading.Event()

    def run() -> None:
        while not over.wait(notifier.period / 3):
            why = stuck()
            notifier.say(*([f"STATUS={why}"] if why else [ALIVE]))

    notifier.say(READY, "STATUS=")
    if notifier.period:
        notifier.say(ALIVE)
        threading.Thread(target=run, name="bai-watchdog", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        notifier.say(STOPPING)
