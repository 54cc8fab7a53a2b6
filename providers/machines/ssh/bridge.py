"""A socket of the far side without the server's help: a process there copies between it and its own standard
streams. For servers that forbid forwarding, and for sockets that only root may use."""

from __future__ import annotations

import time

import paramiko

from providers.machines.ssh.channels import await_readable

BRIDGE = """
import os, socket, sys, threading
try:
    if len(sys.argv) > 2:
        far = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
        far.settimeout(None)
    else:
        far = socket.socket(socket.AF_UNIX)
        far.connect(sys.argv[1])
except OSError as error:
    sys.exit(error.strerror or str(error))
os.write(1, b"+")
def up():
    try:
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)
    except OSError:
        pass
threading.Thread(target=up, daemon=True).start()
try:
    while True:
        data = far.recv(65536)
        if not data:
            break
        while data:
            data = data[os.write(1, data):]
except OSError:
    pass
"""
"""Says `+` when it is connected."""


def await_bridge(channel: paramiko.Channel, seconds: float) -> str | None:
    """Wait until the bridge stands; else why it does not."""
    deadline = time.monotonic() + seconds
    while not channel.recv_ready() and not channel.eof_received and not channel.closed:
        if time.monotonic() > deadline:
            return f"no answer within {seconds:g} s"
        await_readable(channel, 1.0)
    if channel.recv_ready() and channel.recv(1) == b"+":
        return None
    said = channel.recv_stderr(4096).decode(errors="replace").strip().splitlines()
    return said[-1].lower() if said else "nothing there can forward it: python3 is needed"
