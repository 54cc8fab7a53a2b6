"""Who is acting: the name under which the lease is held and events are recorded."""

from __future__ import annotations

import getpass
import os
import socket


def current_actor() -> str:
    """`user@host (process 123)`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (process {os.getpid()})"
