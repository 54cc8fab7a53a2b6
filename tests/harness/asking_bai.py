"""The program behind the `bai` of `scripted_bai.py`: asks a fork server for what it was started as, and has
the exit code of the fork. Where a fork would not be the same it becomes bai itself.

It is copied to where scripts find it, and imports next to nothing.
"""

import json
import os
import socket
import struct
import sys

LENGTH, STATUS = struct.Struct("!I"), struct.Struct("!i")
STAYING = {"serve", "logs", "attach", "exec", "watch", "--watch", "--follow", "-f"}
"""Words of commands that somebody ends by a signal."""


def ask(address: str, words: list[str]) -> int | None:
    """The exit code; None where a fork would not be the same, or nobody answers."""
    environment = dict(os.environ)
    request = {"words": words, "environment": environment, "folder": os.getcwd(), "limits": []}
    text = json.dumps(request).encode()
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(address)
            socket.send_fds(server, [LENGTH.pack(len(text))], [0, 1, 2])
            server.sendall(text)
            said = server.recv(STATUS.size, socket.MSG_WAITALL)
    except OSError:
        return None
    return int(STATUS.unpack(said)[0]) if len(said) == STATUS.size else None


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    bai, words = os.readlink(f"{here}/real"), sys.argv[1:]
    code = ask(f"{here}/server", [bai, *words]) if STAYING.isdisjoint(words) else None
    if code is None:
        os.execv(bai, [bai, *words])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
