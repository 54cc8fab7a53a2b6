"""Which containers of a service's replicas are shown, by which names, and from where on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bai.cli.sessions.logs import LogRequest

MAIN = "main1"


@dataclass(frozen=True, slots=True)
class LogChoice:
    """`all`: all containers of each replica, else the main one. `wanted`: of each that is there at first."""

    wanted: LogRequest
    all: bool

    def has(self, kernel: str) -> bool:
        """`kernel`: a container's name in its replica."""
        return self.all or kernel == MAIN

    def name(self, replica: str, kernel: str) -> str:
        """What its lines begin with."""
        return f"{replica}/{kernel}" if self.all else replica

    def request(self, came: bool) -> LogRequest:
        """Of one that has come since, all."""
        return replace(self.wanted, tail=None, since=None) if came else self.wanted
