"""What is sent to a command while its output is listened to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from providers.kubernetes.interaction.execute import ExecCommand


class Feeder(threading.Thread):
    """Sends an archive or a file while the command that takes it is listened to, which may end before all of
    it was read."""

    def __init__(self, command: ExecCommand, archive: Iterator[bytes]) -> None:
        super().__init__(name="archive", daemon=True)
        self._command = command
        self._archive = archive
        self._failed: BaseException | None = None

    def run(self) -> None:
        try:
            for data in self._archive:
                try:
                    self._command.channels.send(data)
                except OSError:
                    return
            self._command.channels.end()
        except BaseException as error:
            self._failed = error
            self._command.channels.leave()

    def finish(self) -> None:
        """Raises what the archive raised."""
        if self._failed is not None:
            raise self._failed
