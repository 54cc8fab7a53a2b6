"""What a person does with a running container: commands, terminal, files, ports. Imported when first used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING

from providers.docker.fleet import Fleet
from providers.docker.interaction import logs
from providers.machines.base import Stream
from providers.machines.files.folder_listing import FolderListing

if TYPE_CHECKING:
    from providers.abilities import TerminalStream
    from providers.docker.interaction.forward import PortDialer


class Interaction:
    """Mixed into the provider, which has the fleet of engines."""

    fleet: Fleet

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        from providers.docker.interaction.execute import execute

        return execute(self.fleet.find(kernel_id)[0], kernel_id, argv, stdin=stdin, tty=tty)

    def attach(self, kernel_id: str, *, stdin: IO[bytes] | None = None) -> int:
        from providers.docker.interaction.attach import attach

        return attach(self.fleet.find(kernel_id)[0], kernel_id, stdin)

    def open_terminal(self, kernel_id: str, argv: Sequence[str], size: tuple[int, int]) -> TerminalStream:
        from providers.docker.interaction.execute import open_terminal

        return open_terminal(self.fleet.find(kernel_id)[0], kernel_id, tuple(argv), size)

    def attach_terminal(self, kernel_id: str, size: tuple[int, int]) -> TerminalStream:
        from providers.docker.interaction.attach import open_terminal

        return open_terminal(self.fleet.find(kernel_id)[0], kernel_id, size)

    def logs_since(self, kernel_id: str, since: datetime, *, follow: bool = False) -> Iterator[bytes]:
        return logs.read_logs(self.fleet.find(kernel_id)[0], kernel_id, follow=follow, since=since)

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        from providers.docker.container.copy import copy_out

        return copy_out(self.fleet.find(kernel_id)[0], kernel_id, path)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        from providers.docker.container.copy import copy_in

        copy_in(self.fleet.find(kernel_id)[0], kernel_id, path, archive)

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        from providers.docker.interaction.files import list_files

        return list_files(self.fleet.find(kernel_id)[0], kernel_id, path, most)

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        from providers.docker.interaction.files import write_file

        write_file(self.fleet.find(kernel_id)[0], kernel_id, path, size, data)

    def dial(self, kernel_id: str, port: int) -> Stream:
        engine, found = self.fleet.find(kernel_id)
        return self._ports.dial(engine, kernel_id, port, found)

    @cached_property
    def _ports(self) -> PortDialer:
        from providers.docker.interaction.forward import PortDialer

        return PortDialer()
