"""What every machine does, tried on this one and on one over SSH alike."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from providers.machines.base import Machine, Stream
from providers.machines.local import LocalMachine
from providers.machines.ssh.machine import SshMachine
from schemas.problems.errors.node import CommandTimedOut, MachineRefused, TargetRefused
from tests.lab.sshd import SshdNode, SshdNodes
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("sshd")


@pytest.fixture(scope="module")
def forbidding(sshd_lab: SshdNodes) -> SshdNode:
    """A server that forwards nothing."""
    return sshd_lab.private("AllowStreamLocalForwarding no\nAllowTcpForwarding no")


@pytest.fixture(params=["local", "ssh", "ssh without forwarding"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    if request.param == "local":
        yield LocalMachine("here")
        return
    nodes: SshdNodes = request.getfixturevalue("sshd_nodes")
    node = nodes(1)[0] if request.param == "ssh" else request.getfixturevalue("forbidding")
    made = SshMachine(node.endpoint())
    yield made
    made.close()


def test_words_arrive_as_they_are_and_codes_come_back(machine: Machine) -> None:
    words = ["a b", "$HOME", "'", '"', "*", "\\", "", "x\ny", "ü", ";exit 9"]
    done = machine.run(["printf", "%s|", *words])
    assert (done.code, done.out.decode()) == (0, "".join(f"{word}|" for word in words))
    assert machine.run(["sh", "-c", "echo no >&2; exit 7"]).code == 7
    assert machine.run(["sh", "-c", "echo no >&2; exit 7"]).err == b"no\n"
    assert machine.run(["no-such-command"]).code == 127
    assert machine.run(["sh", "-c", "kill -9 $$"]).code == 137


def test_input_environment_and_megabytes_both_ways(machine: Machine) -> None:
    data = os.urandom(5 << 20)
    assert machine.run(["cat"], stdin=data).out == data
    assert machine.run(["sh", "-c", 'printf %s "$A"'], env={"A": "b 'c' $d"}).out == b"b 'c' $d"
    assert machine.run(["true"], stdin=data).code == 0, "input that nobody reads"


def test_a_command_that_takes_too_long_ends(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(CommandTimedOut, match="did not finish `sh` within") as caught:
        machine.run(["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 300"], timeout=2)
    assert caught.value.retryable
    assert machine.run(["true"]).code == 0
    until(lambda: machine.run(["sh", "-c", f"kill -0 $(cat {tmp_path}/pid)"]).code != 0)


def test_a_process_is_talked_to(machine: Machine) -> None:
    process = machine.start(["sh", "-c", "echo oops >&2; while read line; do echo got $line; done; exit 3"])
    process.write(b"one\n")
    output = process.read()
    assert next(output) == b"got one\n"
    process.close_stdin()
    assert b"".join(output) == b""
    assert process.wait() == 3
    until(lambda: process.errors() == b"oops\n")
    process.close()


def test_what_is_said_as_an_error_never_stops_a_process(machine: Machine) -> None:
    process = machine.start(["sh", "-c", "head -c 8000000 /dev/zero >&2; echo done"])
    assert b"".join(process.read()) == b"done\n"
    assert process.wait() == 0
    until(lambda: len(process.errors()) == 1 << 16, "its last errors are kept")
    process.close()


def test_a_terminal_has_a_size_and_hands_on_control_c(machine: Machine) -> None:
    process = machine.start(["sh", "-c", "read x; stty size; exec cat"], tty=True)
    process.resize(33, 111)
    process.write(b"\n")
    output, seen = process.read(), b""
    while b"33 111" not in seen:
        seen += next(output)
    process.write(b"\x03")
    list(output)
    assert process.wait() == 130
    process.close()


def test_closing_ends_what_runs(machine: Machine, tmp_path: Path) -> None:
    process = machine.start(["sh", "-c", f"echo $$ > {tmp_path}/pid; echo up; sleep 300"])
    assert next(process.read()) == b"up\n"
    process.close()
    until(lambda: machine.run(["sh", "-c", f"kill -0 $(cat {tmp_path}/pid)"]).code != 0)


def test_files_are_written_whole_and_privately(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "deep" / "file"
    data = os.urandom(300_000)
    machine.put(str(path), data, mode=0o640)
    machine.put(str(path), data + b"!", mode=0o600)
    assert machine.get(str(path)) == data + b"!"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [each.name for each in path.parent.iterdir()] == ["file"]
    machine.put(str(tmp_path / "empty"), b"")
    assert machine.get(str(tmp_path / "empty")) == b""


def test_files_that_cannot_be(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        machine.get(str(tmp_path / "none"))
    with pytest.raises(MachineRefused, match="refuses to read"):
        machine.get(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(MachineRefused, match="refuses to write"):
        machine.put(str(tmp_path / "file" / "below"), b"x")


def _echo(server: socket.socket) -> None:
    while True:
        try:
            connection = server.accept()[0]
        except OSError:
            return
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.sendall(b"end")


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """A unix socket that says what is said to it, then `end`."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "echo"))
        server.listen()
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        yield str(tmp_path / "echo")
        server.shutdown(socket.SHUT_RDWR)


def _send(stream: Stream, data: bytes) -> None:
    stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)


def test_a_unix_socket_is_reached(machine: Machine, echo: str) -> None:
    for _ in range(2):
        stream = machine.dial(echo)
        data = os.urandom(200_000)
        sender = threading.Thread(target=_send, args=(stream, data))
        sender.start()
        got = b""
        while piece := stream.recv(65536):
            got += piece
        sender.join()
        assert got == data + b"end"
        stream.close()


def test_a_port_is_reached_and_time_outs_hold(machine: Machine) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
        "c = s.accept()[0]; c.sendall(b'hello' + c.recv(9)); c.recv(1)"
    )
    process = machine.start([sys.executable, "-c", script])
    port = int(next(process.read()))
    stream = machine.dial(("127.0.0.1", port))
    stream.sendall(b"!")
    assert stream.recv(100) == b"hello!"
    stream.settimeout(0.1)
    with pytest.raises(TimeoutError):
        stream.recv(1)
    stream.close()
    process.close()


def test_nothing_answers(machine: Machine, tmp_path: Path) -> None:
    for target in (str(tmp_path / "none"), ("127.0.0.1", 1)):
        with pytest.raises(TargetRefused, match="Nothing answers at") as caught:
            machine.dial(target)
        assert caught.value.retryable
    assert machine.run(["true"]).code == 0


def test_many_at_a_time(machine: Machine) -> None:
    with ThreadPoolExecutor(50) as threads:
        done = list(threads.map(lambda n: machine.run(["sh", "-c", f"sleep 0.1; echo {n}"]).out, range(50)))
    assert done == [f"{n}\n".encode() for n in range(50)]


def test_openssh_reads_what_was_recorded(
    sshd_nodes: SshdNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of known hosts is the user's own as well."""
    node = sshd_nodes.private(port=2222)
    monkeypatch.setenv("HOME", str(tmp_path))
    known = tmp_path / ".ssh" / "known_hosts"
    machine = SshMachine(node.endpoint(knownHostsFrom=None, hostKeys="accept-new"))
    assert machine.run(["true"]).code == 0
    machine.close()
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("no ssh on this machine")
    words = [ssh, "-i", str(sshd_nodes.key), "-p", "2222", "-o", f"UserKnownHostsFile={known}"]
    words += ["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", f"root@{node.address}", "echo in"]
    assert subprocess.run(words, capture_output=True, check=False, timeout=60).stdout == b"in\n"
    node.kill()
