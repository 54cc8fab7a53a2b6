"""Commands, terminals, files and ports of containers on real engines."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from providers.base import Network
from providers.docker.interaction import root_folder
from providers.docker.interaction.relay import RelayStream
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines.base import Endpoint, Stream
from schemas.kinds.cluster import Ssh
from schemas.problems.errors.kernel import CopyRefused, FilesRefused, KernelNotFound, PortRefused
from tests.harness.ports import free_port
from tests.harness.processes import having
from tests.lab.docker import Engines
from tests.lab.docker_lab import DockerLab, lent_docker_lab
from tests.providers.archives import packed, unpacked
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import UID, kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker")
REPOSITORY = Path(__file__).resolve().parents[3]
CALLER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it ignored
from providers.docker.options import open_docker
from providers.machines.base import Endpoint
node = Endpoint("n1", "localhost", local=True, options={"socket": sys.argv[1]})
provider = open_docker({}, machines=[node])
what, name, *argv = sys.argv[2:]
if what == "attach":
    sys.exit(provider.attach(name, stdin=sys.stdin.buffer))
sys.exit(provider.execute(name, tuple(argv), stdin=sys.stdin.buffer, tty=what == "tty"))
"""
NAME = "s-main1-0-g1"
ENVIRONMENT = {**os.environ, "TERM": "xterm"}


@pytest.fixture
def provider(on_engines: Open) -> DockerProvider:
    return on_engines()


def command(engines: Engines, what: str, *argv: str) -> list[str]:
    return [sys.executable, "-c", CALLER, engines(1)[0].socket, what, NAME, *argv]


def run(engines: Engines, *argv: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(engines, "plain", *argv), input=text, capture_output=True, cwd=REPOSITORY, timeout=120
    )


def spawn(engines: Engines, what: str, *argv: str) -> pexpect.spawn:  # type: ignore[type-arg]
    first, *rest = command(engines, what, *argv)
    return pexpect.spawn(
        first,
        rest,
        env=ENVIRONMENT,
        cwd=str(REPOSITORY),
        timeout=60,
        use_poll=True,
        encoding="utf-8",
        dimensions=(31, 97),
    )


def left(child: pexpect.spawn) -> int | None:  # type: ignore[type-arg]
    child.expect(pexpect.EOF)
    child.close()
    code: int | None = child.exitstatus
    return code


# commands


@pytest.mark.parametrize("fields", [{}, {"secret_env": {"TOKEN": "x"}}], ids=["plain", "with secrets"])
def test_what_cannot_be_run_is_said_with_a_shells_code(
    provider: DockerProvider, engines: Engines, fields: dict[str, Any]
) -> None:
    provider.create(kernel(**fields))
    for program, code in (("no-such", 127), ("/no/such", 127), ("/etc/passwd", 126), ("/etc", 126)):
        done = run(engines, program)
        assert (done.returncode, done.stdout) == (code, b""), done.stderr
        assert f"{program}: ".encode() in done.stderr and len(done.stderr.splitlines()) == 1
        assert b"OCI" not in done.stderr
    child = spawn(engines, "tty", "no-such")
    child.expect("no-such: the container has no such program in its PATH")
    assert left(child) == 127


def test_output_that_looks_like_an_engines_refusal_is_the_commands(
    provider: DockerProvider, engines: Engines
) -> None:
    provider.create(kernel())
    words = "OCI runtime exec failed: exec failed"
    done = run(engines, "sh", "-c", f"echo {words}; exit 127")
    assert (done.returncode, done.stdout, done.stderr) == (127, f"{words}\n".encode(), b"")
    done = run(engines, "sh", "-c", f"yes {words} | head -n 1000")
    assert done.stdout == f"{words}\n".encode() * 1000


WITHOUT_KILL = ("setpriv", "--bounding-set=-kill")
"""Root that may not signal another user's processes, as somebody who may only talk to the engine."""
TRAP = "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize("prefix", [(), WITHOUT_KILL], ids=["ours", "another user's"])
def test_an_interrupt_reaches_the_command(
    provider: DockerProvider, engines: Engines, prefix: tuple[str, ...]
) -> None:
    provider.create(kernel(user="1000"))
    with calling(engines, "sh", "-c", TRAP, prefix=prefix) as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        started.send_signal(signal.SIGINT)
        out, said = started.communicate(timeout=60)
        assert (out, started.returncode) == ("caught\n", 5), said


def test_output_is_whole_however_often_it_is_interrupted(provider: DockerProvider, engines: Engines) -> None:
    provider.create(kernel())
    text = "trap '' INT; i=0; while ! [ -e /go ]; do echo line $((i += 1)); done; echo end"
    with calling(engines, "sh", "-c", text) as started:
        assert started.stdout is not None
        for _ in range(20):
            assert started.stdout.readline().startswith("line ")
            started.send_signal(signal.SIGINT)
            time.sleep(0.01)
        provider.copy_in(NAME, "/", packed({"go": b""}))
        *lines, last = started.stdout.read().splitlines()
        assert lines == [f"line {i}" for i in range(21, 21 + len(lines))] and last == "end"
        assert started.wait(60) == 0


def test_who_cannot_interrupt_a_command_is_let_go(provider: DockerProvider, engines: Engines) -> None:
    provider.create(kernel(user="1000"))
    engines(1)[0].docker("exec", "--user", "0", NAME, "rm", "/bin/sh")
    with calling(engines, "ash", "-c", TRAP, prefix=WITHOUT_KILL) as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
        assert "the interrupt could not be passed on; the command may still run" in said
        assert started.returncode == 1


@contextlib.contextmanager
def calling(
    engines: Engines, *argv: str, what: str = "plain", prefix: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test, with no input; ended with it."""
    with subprocess.Popen(
        [*prefix, *command(engines, what, *argv)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def test_a_command_on_a_terminal_follows_the_window(provider: DockerProvider, engines: Engines) -> None:
    provider.create(kernel())
    child = spawn(engines, "tty", "sh")
    child.expect("[#$] ")
    until_size(child, "31 97")
    child.setwinsize(40, 120)
    until_size(child, "40 120")
    seconds = f"86{free_port()}"
    child.sendline(f"echo $TERM; sleep {seconds}")
    child.expect("xterm")
    # While the shell starts the command, Ctrl-C is for neither of the two.
    until(lambda: ["sleep", seconds] in having(seconds).values(), "the command runs")
    child.sendintr()
    child.expect("[#$] ")
    child.sendline("exit 4")
    assert left(child) == 4


def until_size(child: pexpect.spawn, size: str) -> None:  # type: ignore[type-arg]
    """The size arrives a moment after the window has changed."""
    for _ in range(100):
        child.sendline("stty size; echo d''one")
        child.expect(r"(\d+ \d+)\s+done")
        if isinstance(child.match, re.Match) and child.match[1] == size:
            return
        time.sleep(0.1)
    raise AssertionError(f"never {size}")


# terminals


def test_a_terminal_is_left_and_found_again(provider: DockerProvider, engines: Engines) -> None:
    provider.create(kernel(NAME, "sh", tty=True))
    child = spawn(engines, "attach")
    prompted(child)
    child.sendline("X=kept")
    until_size(child, "31 97")
    child.send("\x10")
    child.send("\x11")
    assert left(child) == 0
    assert provider.observe().kernels[0].state == "running"
    child = spawn(engines, "attach")
    prompted(child)
    child.sendline("echo is-$X; exit 9")
    child.expect("is-kept")
    assert left(child) == 9


def prompted(child: pexpect.spawn) -> None:  # type: ignore[type-arg]
    """The shell answers, and waits for the next line."""
    child.sendline("echo he''re")
    child.expect("here")
    child.expect("[$] ")


def test_without_a_terminal_there_is_output_until_the_end(provider: DockerProvider, engines: Engines) -> None:
    provider.create(script("while ! [ -e go ]; do echo up; sleep 0.05; done; echo out; echo err >&2; exit 3"))
    with calling(engines, what="attach") as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        provider.copy_in(NAME, ".", packed({"go": b""}))
        *before, last = started.stdout.read().splitlines()
        assert set(before) <= {"up"} and last == "out"
        assert started.stderr is not None and started.stderr.read() == "err\n"
        assert started.wait(60) == 3


# files


def test_files_go_in_and_out(provider: DockerProvider) -> None:
    provider.create(
        script("mkdir -p /tmp/d; echo x >/tmp/d/f; chmod 600 /tmp/d/f; echo up; sleep 1000", workdir="/tmp")
    )
    until(lambda: b"".join(provider.logs(NAME)) == b"up\n", "it has made them")
    assert "d/f" in unpacked(provider.copy_out(NAME, "d"))
    assert unpacked(provider.copy_out(NAME, "/tmp/d"))["d/f"].mode & 0o777 == 0o600
    provider.copy_in(NAME, "d", packed({"a/b": b"1", "c": b"2" * 1_000_000}))
    assert {"f", "a/b", "c"} <= unpacked(provider.copy_out(NAME, "d/.")).keys()
    provider.stop(NAME, grace=0)
    assert "d/c" in unpacked(provider.copy_out(NAME, "/tmp/d"))


def test_files_belong_to_the_kernels_user(provider: DockerProvider) -> None:
    provider.create(kernel(user="user"))
    provider.copy_in(NAME, "/tmp", packed({"mine": b"1"}))
    member = unpacked(provider.copy_out(NAME, "/tmp/mine"))["mine"]
    assert (member.uid, member.gid, member.mode & 0o777) == (1000, UID, 0o640)


def test_what_cannot_be_copied_is_refused(provider: DockerProvider) -> None:
    provider.create(kernel(read_only_root=True))
    for path in ("/nope", "/dev/shm/x", "/tmp/x"):
        with pytest.raises(CopyRefused):
            list(provider.copy_out(NAME, path))
    for path in ("/nope", "/bin/busybox"):
        with pytest.raises(CopyRefused):
            provider.copy_in(NAME, path, packed({"a": b""}))
    with pytest.raises(KernelNotFound):
        list(provider.copy_out("nobody-main1-0-g1", "/"))


LEADING_OUT = """
cd /tmp && mkdir -p d && ln -s /../../../../../../.. d/up && ln -s "{}" d/host && ln -s /proc/1/root d/magic
ln -s /proc/self/cwd d/own && touch here; sleep 1000
"""


def test_no_link_leads_from_a_container_to_its_node(provider: DockerProvider, tmp_path: Path) -> None:
    (tmp_path / "canary").touch()
    provider.create(script(LEADING_OUT.format(tmp_path)))
    until(lambda: "here" in listed(provider, "/tmp"), "it has made its links")
    assert listed(provider, "/tmp/d/up") == listed(provider, "/") == listed(provider, "/../../..")
    assert "canary" not in listed(provider, "/tmp/d/up/tmp")
    for path in ("/tmp/d/host", "/tmp/d/magic", "/tmp/d/own", str(tmp_path), f"/tmp/d/up{tmp_path}"):
        with pytest.raises(FilesRefused):
            provider.list_files(NAME, path, 100)
        with pytest.raises(FilesRefused):
            provider.write_file(NAME, f"{path}/canary", 1, iter([b"x"]))
    assert (tmp_path / "canary").read_bytes() == b""


def listed(provider: DockerProvider, path: str) -> list[str]:
    return [each.name for each in provider.list_files(NAME, path, 1000).entries]


def test_a_number_that_is_another_process_by_now_opens_nothing() -> None:
    order = {"path": b"/".hex(), "do": "list", "most": 10}
    answer = root_folder.serve({"pid": os.getpid(), "container": "0" * 64, **order})
    assert answer == {"refused": "its process is in no control group of its container"}
    assert "refused" in root_folder.serve({"pid": os.getpid(), "container": "", **order})


# ports


def answer(stream: Stream, text: bytes) -> bytes:
    """Send, say that no more comes, and read to the end."""
    stream.sendall(text)
    stream.shutdown(socket.SHUT_WR)
    parts = []
    while data := stream.recv(65536):
        parts.append(data)
    stream.close()
    return b"".join(parts)


ECHO = "while :; do nc -l -p 7070 -e sh -c 'echo hello; exec cat'; done"


def test_what_listens_on_its_loopback_only_is_reached_too(provider: DockerProvider) -> None:
    provider.create(script("echo found >/tmp/f; exec httpd -f -p 127.0.0.1:7070 -h /tmp"))
    said = answer(reached(provider, 7070), b"GET /f HTTP/1.0\r\n\r\n")
    assert b" 200 OK" in said and said.endswith(b"found\n")


def reached(provider: DockerProvider, port: int) -> Stream:
    """A connection, as soon as somebody listens."""
    found: list[Stream] = []

    def dialled() -> bool:
        try:
            found.append(provider.dial(NAME, port))
        except PortRefused:
            return False
        return True

    until(dialled)
    return found[0]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerLab]:
    """One node by SSH, alone in its swarm."""
    yield from lent_docker_lab(tmp_path_factory.mktemp("lab"), 1)


@pytest.fixture
def node(lab: DockerLab) -> Iterator[DockerProvider]:
    """It reaches its containers by their addresses, as the nodes of a cluster do."""
    (engine,) = lab.engines
    ssh = Ssh(user="root", port=lab.port, keyFrom="lab/key", knownHostsFrom="lab/known_hosts")
    options = {"socket": engine.socket}
    endpoint = Endpoint("n1", "127.0.2.1", ssh=ssh, options=options, secret=lab.secret)
    provider = open_docker({}, machines=[endpoint])
    yield provider
    for kernel_id in [seen.id for seen in provider.observe().kernels]:
        provider.remove(kernel_id)
    provider.close()


OVERLAY = Network("overlay", name="bai-s-0-g1", aliases=("main1",))


@pytest.mark.parametrize("network", [Network(), OVERLAY, Network("host")], ids=["bridge", "overlay", "host"])
def test_over_ssh_the_node_connects_to_the_containers_address(node: DockerProvider, network: Network) -> None:
    node.create(script(ECHO, network=network))
    text = b"y" * 300_000

    def direct() -> Stream | None:
        # A server that begins to listen between the two ways is reached by the second, the relay.
        stream = reached(node, 7070)
        if not isinstance(stream, RelayStream):
            return stream
        stream.close()
        return None

    assert answer(until(direct, "the node's own connection"), text) == b"hello\n" + text


def test_over_ssh_files_and_loopback_ports_work_too(node: DockerProvider) -> None:
    node.create(script("exec httpd -f -p 127.0.0.1:7070 -h /tmp"))
    node.copy_in(NAME, "/tmp", packed({"f": b"z" * 500_000}))
    said = answer(reached(node, 7070), b"GET /f HTTP/1.0\r\n\r\n")
    assert said.endswith(b"z" * 500_000)
    assert unpacked(node.copy_out(NAME, "/tmp/f"))["f"].size == 500_000


def test_host_mode_is_the_nodes_own(provider: DockerProvider) -> None:
    provider.create(kernel(network=Network("host")))
    with pytest.raises(PortRefused):
        provider.dial(NAME, 1)
