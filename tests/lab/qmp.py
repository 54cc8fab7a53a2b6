"""QEMU's own protocol (QMP): commands to a running QEMU over a unix socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.lab.cache import LabUnavailable


class Monitor:
    """A connection to one QEMU. What it refuses, or does not answer in time, is LabUnavailable."""

    def __init__(self, path: Path, *, seconds: float = 60) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(str(path))
            self._stream = self._socket.makefile("rwb")
            self._stream.readline()
        except OSError as error:
            self._socket.close()
            raise LabUnavailable(f"QEMU's monitor: {error}") from None
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: object) -> dict[str, Any]:
        """What a command returns."""
        asked = {"execute": command, "arguments": arguments}
        try:
            self._stream.write(json.dumps(asked).encode() + b"\n")
            self._stream.flush()
            while line := self._stream.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise LabUnavailable(f"QEMU refuses {command}: {answer['error'].get('desc')}")
                if "return" in answer:
                    returned: dict[str, Any] = answer["return"]
                    return returned
        except OSError as error:
            raise LabUnavailable(f"QEMU's monitor: {error}") from None
        raise LabUnavailable(f"QEMU ended at {command}")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._socket.close()
