"""A port of a container through a small command inside it: for what listens on its loopback only, and for
networks that the node cannot reach. The image must have socat, nc, python3 or bash."""

from __future__ import annotations

import contextlib
import socket

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.hijack import STDERR
from providers.docker.interaction.execute import ExecCommand, begin_exec
from providers.machines.base import Stream
from schemas.problems.errors.kernel import PortRefused

READY = b"ready\n"
NO_TOOL, NOT_LISTENING = 69, 61
SCRIPT = r"""
port=$1
wanted=$(printf %04X "$port")
host=
for table in /proc/net/tcp /proc/net/tcp6; do
    while read -r _ local _ state _; do
        [ "$state" = 0A ] || continue
        case $local in
            00000000000000000000000001000000:$wanted) host=${host:-::1} ;;
            0100007F:$wanted | 00000000:$wanted | 00000000000000000000000000000000:$wanted) host=127.0.0.1 ;;
            *:$wanted) host=${host:-$(hostname -i 2>/dev/null | cut -d' ' -f1)} ;;
        esac
    done <$table
done 2>/dev/null
[ "$host" ] || exit 61
has() { command -v "$1" >/dev/null 2>&1; }
if has socat; then
    case $host in *:*) target="TCP6:[$host]:$port" ;; *) target="TCP4:$host:$port" ;; esac
    echo ready
    exec socat -t 86400 - "$target"
elif has python3; then
    echo ready
    exec python3 -c '
import os, socket, sys, threading
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def inward():
    while data := os.read(0, 65536):
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=inward, daemon=True).start()
while data := far.recv(65536):
    while data:
        data = data[os.write(1, data):]
' "$host" "$port"
elif has nc; then
    echo ready
    exec nc "$host" "$port"
elif has bash; then
    echo ready
    exec bash -c 'exec 3<>"/dev/tcp/$1/$2"; cat >&3 & cat <&3' bash "$host" "$port"
fi
exit 69
"""


class RelayStream:
    """A `Stream` that is the input and output of a relaying command."""

    def __init__(self, command: ExecCommand) -> None:
        self._command = command
        self._stream: Stream = command.stream.stream
        self._frames = command.stream.frames()
        self._held = b""

    def ready(self) -> bool:
        """Wait for the relay to say that it goes; False when it ended instead."""
        while not self._held.startswith(READY):
            data = self._read_more()
            if not data:
                return False
            self._held += data
        self._held = self._held[len(READY) :]
        return True

    def _read_more(self) -> bytes:
        for number, data in self._frames:
            if number != STDERR and data:
                return data
        return b""

    def recv(self, size: int, /) -> bytes:
        if not self._held:
            self._held = self._read_more()
        data, self._held = self._held[:size], self._held[size:]
        return data

    def sendall(self, data: bytes, /) -> None:
        self._stream.sendall(data)

    def shutdown(self, how: int, /) -> None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(how if how != socket.SHUT_RD else socket.SHUT_RDWR)

    def settimeout(self, seconds: float | None, /) -> None:
        self._stream.settimeout(seconds)

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        self._command.stream.close()


def relay(engine: Engine, kernel: str, port: int) -> Stream:
    """Raises PortRefused, ProviderError."""
    argv = ("/bin/sh", "-c", SCRIPT, "sh", str(port))
    with engine_errors(engine.node, kernel):
        command = begin_exec(engine, kernel, argv, typed=True, tty=False)
        made = RelayStream(command)
        if made.ready():
            return made
        made.close()
        code = command.code()
    why = {
        NOT_LISTENING: "nothing listens on it",
        NO_TOOL: "the node cannot reach it, and the image has no socat, python3, nc or bash to relay it",
    }.get(code, "the node cannot reach it, and the image has no shell to relay it")
    raise PortRefused(provider=NAME, kernel=kernel, port=port, why=why)
