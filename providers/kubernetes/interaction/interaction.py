"""What a person does with a pod: commands, terminal, files, ports, output. Imported when first used."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING

from providers.kubernetes.objects.names import PodRef
from providers.machines.base import Stream
from providers.machines.folder_listing import FolderListing

if TYPE_CHECKING:
    from providers.abilities import TerminalStream
    from providers.kubernetes.api.client import ApiClient


class Interaction:
    """Mixed into the provider, which knows the API server and where a kernel's pod is."""

    client: ApiClient

    @abstractmethod
    def pod_of(self, kernel_id: str) -> PodRef:
        """Raises KernelNotFound."""

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        from providers.kubernetes.interaction.execute import execute

        return execute(self.client, self.pod_of(kernel_id), argv, stdin=stdin, tty=tty)

    def attach(self, kernel_id: str, *, stdin: IO[bytes] | None = None) -> int:
        from providers.kubernetes.interaction.attach import attach

        return attach(self.client, self.pod_of(kernel_id), stdin)

    def open_terminal(self, kernel_id: str, argv: Sequence[str], size: tuple[int, int]) -> TerminalStream:
        from providers.kubernetes.interaction.execute import open_terminal

        return open_terminal(self.client, self.pod_of(kernel_id), tuple(argv), size)

    def attach_terminal(self, kernel_id: str, size: tuple[int, int]) -> TerminalStream:
        from providers.kubernetes.interaction.attach import open_terminal

        return open_terminal(self.client, self.pod_of(kernel_id), size)

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        from providers.kubernetes.interaction.logs import read_logs

        return read_logs(self.client, self.pod_of(kernel_id), follow=follow, tail=tail)

    def logs_since(self, kernel_id: str, since: datetime, *, follow: bool = False) -> Iterator[bytes]:
        from providers.kubernetes.interaction.logs import read_logs

        return read_logs(self.client, self.pod_of(kernel_id), follow=follow, since=since)

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        from providers.kubernetes.interaction.copy import copy_out

        return copy_out(self.client, self.pod_of(kernel_id), path)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        from providers.kubernetes.interaction.copy import copy_in

        copy_in(self.client, self.pod_of(kernel_id), path, archive)

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        from providers.kubernetes.interaction.files import list_files

        return list_files(self.client, self.pod_of(kernel_id), path, most)

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        from providers.kubernetes.interaction.files import write_file

        write_file(self.client, self.pod_of(kernel_id), path, size, data)

    def dial(self, kernel_id: str, port: int) -> Stream:
        from providers.kubernetes.interaction.forward import dial

        return dial(self.client, self.pod_of(kernel_id), port)
