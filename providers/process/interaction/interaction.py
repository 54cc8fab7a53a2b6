"""What this provider can do with a running kernel besides keeping it (`providers.abilities`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING

from providers.abilities import LogStream
from providers.process import gpu_usage, usage
from providers.process.events import watch_events
from providers.process.os_errors import translate_errors
from providers.process.supervision import logfile
from schemas.problems.errors.kernel import KernelRefused, NotRunning, PortRefused

if TYPE_CHECKING:
    from providers.abilities import KernelEvent, TerminalStream, Usage
    from providers.base import Observation
    from providers.machines.base import Stream
    from providers.machines.files.folder_listing import FolderListing
    from providers.process.host_capabilities import HostCapabilities
    from providers.process.interaction.execute import ExecTarget
    from providers.process.supervision.records import KernelRecord, KernelRoot

PATIENCE = 10.0
"""Seconds that a connection to a port may take."""
LOOPBACK = ("127.0.0.1", "::1")


def log_stream(record: KernelRecord, read: Callable[[Callable[[], bool]], Iterator[bytes]]) -> LogStream:
    """What `read` gives while the kernel runs; `read` is given whether that is so and nobody aborted."""
    aborted = threading.Event()
    return LogStream(read(lambda: record.alive and not aborted.is_set()), aborted.set)


class Interaction:
    """Mixed into the provider, which has the root, what the machine can do, and the looks at kernels."""

    root: KernelRoot

    if TYPE_CHECKING:

        @property
        def host(self) -> HostCapabilities: ...

        def observe(self) -> Observation: ...

        def _read_record(self, kernel_id: str) -> KernelRecord: ...

        def _exec_target(self, kernel_id: str) -> ExecTarget: ...

    def attach(self, kernel_id: str, *, stdin: IO[bytes] | None = None) -> int:
        from providers.process.interaction.attach import attach

        return attach(self._read_record(kernel_id), lambda: self._read_record(kernel_id), stdin)

    @translate_errors
    def open_terminal(self, kernel_id: str, argv: Sequence[str], size: tuple[int, int]) -> TerminalStream:
        from providers.process.interaction.execute import open_terminal

        return open_terminal(self._exec_target(kernel_id), tuple(argv), size)

    @translate_errors
    def attach_terminal(self, kernel_id: str, size: tuple[int, int]) -> TerminalStream:
        from providers.process.interaction.attach import open_terminal

        return open_terminal(self._read_record(kernel_id), lambda: self._read_record(kernel_id), size)

    def logs_since(self, kernel_id: str, since: datetime, *, follow: bool = False) -> Iterator[bytes]:
        record = self._read_record(kernel_id)
        folder, began = str(record.folder / "logs"), since.timestamp()
        return log_stream(record, lambda alive: logfile.output_since(folder, alive, began, follow=follow))

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        from providers.process.interaction import copy

        return copy.copy_out(self._exec_target(kernel_id), path, sandboxed=self.host.sandbox)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        from providers.process.interaction import copy

        copy.copy_in(self._exec_target(kernel_id), path, archive, sandboxed=self.host.sandbox)

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        from providers.process.interaction import files

        return files.list_files(self._exec_target(kernel_id), path, most, sandboxed=self.host.sandbox)

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        from providers.process.interaction import files

        files.write_file(self._exec_target(kernel_id), path, size, data, sandboxed=self.host.sandbox)

    def dial(self, kernel_id: str, port: int) -> Stream:
        """The machine's own ports are the kernel's: it shares the network."""
        if not self._read_record(kernel_id).runs:
            raise NotRunning(provider="process", kernel=kernel_id)
        why = ""
        for address in LOOPBACK:
            try:
                stream = socket.create_connection((address, port), timeout=PATIENCE)
                stream.settimeout(None)
                return stream
            except (OSError, OverflowError) as error:
                why = why or str(getattr(error, "strerror", None) or error).lower()
        raise PortRefused(provider="process", kernel=kernel_id, port=port, why=why)

    def usage(self) -> Iterator[Usage]:
        records = list(self._readable_records())
        busy = gpu_usage.measure_gpus(usage.gpu_ids(records))
        for record in records:
            if (found := usage.measure_kernel(record, busy)) is not None:
                yield found

    def _readable_records(self) -> Iterator[KernelRecord]:
        for kernel_id in self.root.ids():
            try:
                record = self.root.read(kernel_id)
            except (OSError, ValueError, KernelRefused):
                continue
            if record is not None:
                yield record

    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        return watch_events(self.observe, stop)
