"""Where TLS ends before a server that speaks none, as at a reverse proxy; in a namespace of the lab."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path

from tests.lab.certificates import Certificate
from tests.lab.spaces import PATIENCE, inside, listening

_CHUNK = 1 << 16


class TlsEnd:
    """Listens at an address of the namespace and goes on to `upstream`, a port of its loopback. `files`: its
    certificate, which is its own authority, and the key."""

    def __init__(self, namespace: str, address: str, upstream: int, folder: Path) -> None:
        self.files = write_certificate(folder, address)
        self._namespace, self._upstream = namespace, upstream
        self._socket = listening(namespace, address, 0)
        self.url = f"https://{address}:{self._socket.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files)
        with inside(self._namespace):
            server = self._loop.run_until_complete(
                asyncio.start_server(self._carry, sock=self._socket, ssl=context)
            )
            self._loop.run_forever()
            server.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks))
            self._loop.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_CHUNK):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def write_certificate(folder: Path, address: str) -> tuple[str, str]:
    """Files of a certificate and its key."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificate.make(address)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.pem)
    key.write_bytes(made.key)
    return str(certificate), str(key)
