"""A node's way to apps on one machine: a Caddy as nodes have it, an sshd of its own, and OpenSSH between."""

from __future__ import annotations

import contextlib
import getpass
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.node_config import NodeConfig, node_caddy_config

_PATIENCE = 20.0
_SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
"""


@contextlib.contextmanager
def node_way(entry: Path, listener: socket.socket, folder: Path) -> Iterator[int]:
    """From `listener` by a node's Caddy and SSH to `entry`. Needs OpenSSH's server, and root for it."""
    with contextlib.ExitStack() as stack:
        place = folder / "apps"
        config = node_caddy_config(
            NodeConfig(
                f"fd/{listener.fileno()}", "http://*.apps.example", None, folder / "node", socket=str(place)
            )
        )
        (folder / "node.json").write_text(json.dumps(config))
        stack.enter_context(_running(_ssh(entry, place, folder, stack)))
        _wait_for(place)
        command = [str(find_engine(None)), "run", "--config", str(folder / "node.json")]
        stack.enter_context(_running(command, listener.fileno()))
        yield listener.getsockname()[1]


def _ssh(entry: Path, place: Path, folder: Path, stack: contextlib.ExitStack) -> list[str]:
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(_SSHD.format(port=port, folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    stack.enter_context(_running([server, "-D", "-f", str(folder / "sshd_config")]))
    _wait_for_port(port)
    options = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "ExitOnForwardFailure=yes"]
    words = [word for option in options for word in ("-o", option)]
    return [
        "ssh", "-F", "none", "-N", "-i", str(folder / "key"), "-p", str(port), *words,
        "-R", f"{place}:{entry}", f"{getpass.getuser()}@127.0.0.1",
    ]  # fmt: skip


@contextlib.contextmanager
def _running(command: list[str], *files: int) -> Iterator[None]:
    with subprocess.Popen(
        command, pass_fds=files, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def _wait_for(path: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > end:
            raise SystemExit("ssh does not come to this machine's own sshd")
        time.sleep(0.05)


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > end:
            raise SystemExit("sshd does not start")
        time.sleep(0.05)
