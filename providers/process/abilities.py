"""What this provider can do with a running kernel besides keeping it (`providers.abilities`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, TYPE_CHECKING

from providers.abilities import KernelEvent, Usage
from providers.machines.base import Stream
from providers.process import events as telling
from providers.process import gpu_usage, usage
from providers.process.interaction import copy
from providers.process.supervision import logfile
from providers.process.supervision.records import Record, Root
from schemas.problems.errors import KernelRefused, NotRunning, PortRefused

if TYPE_CHECKING:
    from providers.base import Observation
    from providers.process.host_capabilities import Machine
    from providers.process.interaction.execute import Entrance

PATIENCE = 10.0
"""Seconds that a connection to a port may take."""
HERE = ("127.0.0.1", "::1")


class Interaction:
    """Mixed into the provider, which has the root, what the machine can do, and the looks at kernels."""

    root: Root

    if TYPE_CHECKING:

        @property
        def machine(self) -> Machine: ...

        def observe(self) -> Observation: ...

        def _record(self, kernel_id: str) -> Record: ...

        def _entrance(self, kernel_id: str) -> Entrance: ...

    def attach(self, kernel_id: str, *, stdin: IO[bytes] | None = None) -> int:
        from providers.process.interaction import attach as attaching

        return attaching.attach(self._record(kernel_id), lambda: self._record(kernel_id), stdin)

    def logs_since(self, kernel_id: str, since: datetime, *, follow: bool = False) -> Iterator[bytes]:
        record = self._record(kernel_id)
        folder = str(record.folder / "logs")
        return logfile.output_since(folder, lambda: record.alive, since.timestamp(), follow=follow)

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        return copy.copy_out(self._entrance(kernel_id), path, sandboxed=self.machine.sandbox)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        copy.copy_in(self._entrance(kernel_id), path, archive, sandboxed=self.machine.sandbox)

    def dial(self, kernel_id: str, port: int) -> Stream:
        """The machine's own ports are the kernel's: it shares the network."""
        if not self._record(kernel_id).alive:
            raise NotRunning(provider="process", kernel=kernel_id)
        why = ""
        for host in HERE:
            try:
                stream = socket.create_connection((host, port), timeout=PATIENCE)
                stream.settimeout(None)
                return stream
            except (OSError, OverflowError) as error:
                why = why or str(getattr(error, "strerror", None) or error).lower()
        raise PortRefused(provider="process", kernel=kernel_id, port=port, why=why)

    def usage(self) -> Iterator[Usage]:
        records = list(self._readable())
        busy = gpu_usage.now(usage.devices(records))
        for record in records:
            if (found := usage.usage(record, busy)) is not None:
                yield found

    def _readable(self) -> Iterator[Record]:
        for kernel_id in self.root.ids():
            try:
                record = self.root.read(kernel_id)
            except (OSError, ValueError, KernelRefused):
                continue
            if record is not None:
                yield record

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        return telling.events(self.observe, stop)
