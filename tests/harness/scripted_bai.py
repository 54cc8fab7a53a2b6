"""A `bai` for the scripts of a test: each command is a fork of the worker's fork server (`bai_process.py`),
which has imported what it needs.

    with scripted_bai(environment) as folder:
        subprocess.run(["bash", script], env={**environment, "PATH": f"{folder}:{environment['PATH']}"})

`serve`, and what else stays until somebody ends it, is a new process as ever.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.harness import asking_bai
from tests.harness.bai_process import BAI, client_for
from tests.harness.fork_client import ForkClient


@contextlib.contextmanager
def scripted_bai(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folder where scripts of that environment find it: in front of all others in their PATH."""
    client = client_for(environment)
    if client is None:
        yield BAI.parent
        return
    with asked_by_scripts(client) as folder:
        yield folder


@contextlib.contextmanager
def asked_by_scripts(client: ForkClient) -> Iterator[Path]:
    """The folder with a `bai` that is a fork of the client's server."""
    with tempfile.TemporaryDirectory(prefix="bai-") as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)  # A short one, for a socket's address has an end; nobody else may look into it.
        (folder / "real").symlink_to(BAI)
        program = folder / "bai"
        program.write_text(f"#!{sys.executable} -IS\n{Path(asking_bai.__file__).read_text(encoding='utf-8')}")
        program.chmod(0o755)
        listener.bind(str(folder / "server"))
        listener.listen(16)
        handing = threading.Thread(target=_hand_on, args=(listener, client), daemon=True)
        handing.start()
        try:
            yield folder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            handing.join()


def _hand_on(listener: socket.socket, client: ForkClient) -> None:
    """Whoever asks has the server's ear, until the listener is shut down."""
    while True:
        try:
            asking, _ = listener.accept()
        except OSError:
            return
        with asking:
            client.hand_on(asking)
