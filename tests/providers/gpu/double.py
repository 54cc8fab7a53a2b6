"""A stand-in for `nvidia-cuda-mps-control`, a test double: no GPU, but the documented protocol.

`-d` leaves a daemon behind that listens in CUDA_MPS_PIPE_DIRECTORY; without it, commands are read from
standard input, handed to the daemon, and its answers printed. `start_server -uid N` makes a server process,
as a client's arrival would. What was asked stands in `control.log` of CUDA_MPS_LOG_DIRECTORY.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
LOG = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
SOCKET = PIPE / "control"


class Control:
    def __init__(self) -> None:
        self.percent = "100.0"
        self.memory: dict[str, str] = {}
        self.servers: dict[int, dict[str, str]] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def answer(self, line: str) -> str:
        words = line.split()
        if not words:
            return ""
        method = getattr(self, words[0], None)
        if method is None or words[0] in ("answer",):
            return f"Unrecognized command: {words[0]}"
        with (LOG / "control.log").open("a") as log:
            log.write(line + "\n")
        return str(method(*words[1:]))

    def start_server(self, flag: str, uid: str) -> str:
        program = Path(__file__).with_name("nvidia-cuda-mps-server")
        process = subprocess.Popen([sys.executable, str(program)], close_fds=True)
        self.processes.append(process)
        self.servers[process.pid] = {"percent": self.percent, **self.memory}
        return ""

    def get_server_list(self) -> str:
        return "\n".join(str(pid) for pid in self.servers)

    def set_default_active_thread_percentage(self, percent: str) -> str:
        self.percent = f"{float(percent):.1f}"
        return self.percent

    def get_default_active_thread_percentage(self) -> str:
        return self.percent

    def set_active_thread_percentage(self, server: str, percent: str) -> str:
        self.servers[int(server)]["percent"] = f"{float(percent):.1f}"
        return percent

    def set_default_device_pinned_mem_limit(self, device: str, limit: str) -> str:
        self.memory[device] = limit
        return limit

    def set_device_pinned_mem_limit(self, server: str, device: str, limit: str) -> str:
        self.servers[int(server)][device] = limit
        return limit

    def dump(self) -> str:
        """For tests alone."""
        known = {
            "gpu": os.environ["CUDA_VISIBLE_DEVICES"],
            "percent": self.percent,
            "memory": self.memory,
            "servers": list(self.servers.values()),
        }
        return json.dumps(known)

    def quit(self, *options: str) -> str:
        if (LOG / "stubborn").exists():
            return "busy"
        for process in self.processes:
            process.kill()
            process.wait()
        SOCKET.unlink()
        os._exit(0)


def daemon() -> None:
    if (LOG / "broken").exists():
        sys.exit("Cannot find MPS control: an instance of this daemon may already be running")
    if (LOG / "old").exists() and sys.argv[1:] != ["-d"]:
        sys.exit("usage: nvidia-cuda-mps-control [-d | -f]")
    (LOG / "options").write_text(" ".join(sys.argv[1:]))
    server = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        SOCKET.unlink()
    server.bind(str(SOCKET))
    server.listen()
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control = Control()
    while True:
        connection, _ = server.accept()
        with connection:
            line = connection.recv(4096).decode()
            try:
                said = control.answer(line)
            except (KeyError, TypeError, ValueError) as error:
                said = f"error: {error}"
            connection.sendall(said.encode())


def client() -> None:
    for line in sys.stdin:
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(SOCKET))
        except OSError:
            sys.exit("Cannot find MPS control daemon process")
        with connection:
            connection.sendall(line.strip().encode() or b" ")
            said = connection.recv(65536).decode()
            if said:
                print(said)


if __name__ == "__main__":
    if Path(sys.argv[0]).name == "nvidia-cuda-mps-server":
        while True:
            time.sleep(3600)
    daemon() if "-d" in sys.argv[1:] else client()
