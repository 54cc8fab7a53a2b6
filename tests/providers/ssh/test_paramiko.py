"""What paramiko has to keep for what is built on it here, tried on its own server: no member of it that is
private is touched, and those that its documentation passes over are named here."""

from __future__ import annotations

import ast
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_OPEN, MSG_GLOBAL_REQUEST, cMSG_CHANNEL_REQUEST
from paramiko.hostkeys import HostKeyEntry
from paramiko.packet import Packetizer

import providers.machines.ssh
from providers.machines.ssh import transport
from providers.machines.ssh.packets import OpenSshPacketizer
from providers.machines.ssh.transport import MOST_MISSED, Transport
from tests.waiting import until

PATIENCE = 120
PACKAGE = Path(providers.machines.ssh.__file__).parent
USED = {
    "transport": "active auth_timeout banner_timeout clear_to_send handshake_timeout packetizer sock",
    "channel": "closed eof_received exit_status recv_ready recv_stderr_ready resize_pty status_event",
    "packetizer": "close read_message send_message set_keepalive write_all",
}
HOST_KEY = paramiko.ECDSAKey.generate()


class Recorder(Packetizer):
    """Keeps what came; `silent`: sends nothing."""

    silent = False

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.came: list[tuple[int, bytes]] = []

    def read_message(self) -> tuple[int, paramiko.Message]:
        number, message = super().read_message()
        self.came.append((number, message.asbytes()))
        return number, message

    def send_message(self, data: paramiko.Message) -> None:
        if not self.silent:
            super().send_message(data)

    def of_kind(self, number: int) -> list[paramiko.Message]:
        return [paramiko.Message(content) for kind, content in list(self.came) if kind == number]


class Anybody(paramiko.ServerInterface):
    def check_auth_none(self, username: str) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True


@pytest.fixture
def ends() -> Iterator[tuple[Transport, paramiko.Transport]]:
    """Our end of a connection, logged in, and a server's."""
    near, far = socket.socketpair()
    server = paramiko.Transport(far, packetizer_class=Recorder)
    server.add_server_key(HOST_KEY)
    ours = Transport(near)
    try:
        server.start_server(server=Anybody(), event=threading.Event())
        ours.start_client(timeout=PATIENCE)
        ours.auth_none("anybody")
        yield ours, server
    finally:
        ours.close()
        server.close()


def recorder(server: paramiko.Transport) -> Recorder:
    assert isinstance(server.packetizer, Recorder)
    return server.packetizer


def test_members_that_are_used_are_there(ends: tuple[Transport, paramiko.Transport]) -> None:
    """Setting one that is gone would fail nowhere."""
    ours, _ = ends
    here = {"transport": ours, "channel": ours.open_session(), "packetizer": ours.packetizer}
    gone = [
        f"{kind}.{name}" for kind, names in USED.items() for name in names.split()
        if not hasattr(here[kind], name)
    ]  # fmt: skip
    assert not gone, f"this paramiko ({paramiko.__version__}) lacks {', '.join(gone)}"
    assert isinstance(ours.packetizer, OpenSshPacketizer)


def _private(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith("_") and not name.endswith("__")}


def test_no_private_member_is_touched(ends: tuple[Transport, paramiko.Transport]) -> None:
    """Neither overridden or used by what is derived from paramiko, nor named on anything of its elsewhere."""
    theirs: set[str] = set()
    for each in (ends[1], paramiko.Channel(0), Packetizer(socket.socket()), paramiko.HostKeys()):
        theirs |= _private({*dir(each)})
    derived = {"transport.py": Transport, "packets.py": OpenSshPacketizer}
    for name, ours in derived.items():
        assert not _private({*vars(ours)}) & theirs, f"{name} overrides private members of paramiko"
    for file in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and _private({node.attr}):
                on_self = isinstance(node.value, ast.Name) and node.value.id == "self"
                fine = node.attr not in theirs if file.name in derived else on_self
                assert fine, f"{file.name}:{node.lineno} names {node.attr}"


def test_a_channel_to_a_unix_socket_is_asked_for_as_openssh_does(
    ends: tuple[Transport, paramiko.Transport],
) -> None:
    ours, server = ends
    channel = ours.open_unix("/run/döcker.sock", PATIENCE)
    opened = recorder(server).of_kind(MSG_CHANNEL_OPEN)[-1]
    assert opened.get_text() == "direct-streamlocal@openssh.com"
    assert opened.get_int() == channel.get_id()
    assert opened.get_int() and opened.get_int()
    assert (opened.get_text(), opened.get_text(), opened.get_int()) == ("/run/döcker.sock", "", 0)
    assert opened.get_remainder() == b""
    channel.sendall(b"data")
    far = server.accept(PATIENCE)
    assert far is not None and far.recv(4) == b"data"


def test_other_channels_are_asked_for_as_ever(ends: tuple[Transport, paramiko.Transport]) -> None:
    ours, server = ends
    ours.open_session()
    opened = recorder(server).of_kind(MSG_CHANNEL_OPEN)[-1]
    assert opened.get_text() == "session"
    assert len(opened.get_remainder()) == 12


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143), ("odd@openssh.com", 128)])
def test_a_signal_that_ended_a_command_is_an_exit_status(
    ends: tuple[Transport, paramiko.Transport], name: str, code: int
) -> None:
    ours, server = ends
    channel = ours.open_session()
    channel.exec_command("sleep 1000")
    far = server.accept(PATIENCE)
    assert far is not None
    told = paramiko.Message()
    told.add_byte(cMSG_CHANNEL_REQUEST)
    told.add_int(far.remote_chanid)
    told.add_string("exit-signal")
    told.add_boolean(False)
    told.add_string(name)
    told.add_boolean(False)
    told.add_string("")
    told.add_string("")
    server.packetizer.send_message(told)
    assert channel.recv_exit_status() == code
    other = ours.open_session()
    other.exec_command("false")
    far = server.accept(PATIENCE)
    assert far is not None
    far.send_exit_status(1)
    assert other.recv_exit_status() == 1


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Who answers late, as on a machine with much to do, is not given up; until that is undone."""
    monkeypatch.setattr(transport, "MOST_MISSED", 10_000)
    return monkeypatch


def test_a_sign_of_life_keeps_a_connection_and_silence_ends_it(
    ends: tuple[Transport, paramiko.Transport], patient: pytest.MonkeyPatch
) -> None:
    ours, server = ends
    ours.keep_alive(0.05)
    until(lambda: len(recorder(server).of_kind(MSG_GLOBAL_REQUEST)) > 2 * MOST_MISSED)
    until(lambda: ours.packetizer.unanswered == 0, "what was asked is answered, which counts from anew")
    asked = recorder(server).of_kind(MSG_GLOBAL_REQUEST)[0]
    assert (asked.get_text(), asked.get_boolean()) == ("keepalive@openssh.com", True)
    assert ours.is_active()
    recorder(server).silent = True
    patient.undo()
    until(lambda: not ours.is_active())
    assert isinstance(ours.get_exception(), TimeoutError)


@pytest.mark.usefixtures("patient")
def test_keys_can_be_exchanged_anew_while_signs_of_life_are_asked_for(
    ends: tuple[Transport, paramiko.Transport],
) -> None:
    ours, server = ends
    ours.keep_alive(0.01)
    for _ in range(3):
        server.renegotiate_keys()
        until(ours.clear_to_send.is_set)
    channel = ours.open_session()
    channel.sendall(b"on")
    far = server.accept(PATIENCE)
    assert far is not None and far.recv(2) == b"on"


def test_lines_of_known_hosts_are_read_one_by_one() -> None:
    line = f"a,b {HOST_KEY.get_name()} {HOST_KEY.get_base64()} a comment"
    entry = HostKeyEntry.from_line(line)
    assert entry is not None and (entry.hostnames, entry.key) == (["a", "b"], HOST_KEY)
    hashed = paramiko.HostKeys.hash_host("a")
    assert paramiko.HostKeys.hash_host("a", hashed) == hashed != paramiko.HostKeys.hash_host("b", hashed)


def test_why_a_connection_ended_is_told_to_everybody(ends: tuple[Transport, paramiko.Transport]) -> None:
    ours, server = ends
    server.sock.close()
    until(lambda: not ours.is_active(), "it has ended")
    why = ours.get_exception()
    assert why is not None and ours.get_exception() is why


@contextlib.contextmanager
def behind(
    ends: tuple[Transport, paramiko.Transport],
) -> Iterator[tuple[Transport, paramiko.Transport]]:
    """Our end of a connection that leads through that one, as through a jump host, and a server's."""
    ours, server = ends
    through = ours.open_session()
    far = server.accept(PATIENCE)
    assert far is not None
    last = paramiko.Transport(far)
    last.add_server_key(HOST_KEY)
    last.start_server(server=Anybody(), event=threading.Event())
    with contextlib.closing(last), contextlib.closing(Transport(through)) as behind_it:
        behind_it.start_client(timeout=PATIENCE)
        yield behind_it, last


def takes_nothing(_: bytes) -> None:
    """What paramiko says of a socket that is broken."""
    raise EOFError


def test_what_leads_through_a_broken_connection_can_be_closed(
    ends: tuple[Transport, paramiko.Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(ends) as (last, _):
        monkeypatch.setattr(ends[0].packetizer, "write_all", takes_nothing)
        last.close()
        assert not last.is_active()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_leads_through_a_broken_connection_ends_without_a_traceback(
    ends: tuple[Transport, paramiko.Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(ends) as (last, _):
        monkeypatch.setattr(ends[0].packetizer, "write_all", takes_nothing)
        last.keep_alive(0.01)
        last.join(PATIENCE)
        assert not last.is_alive()
        assert isinstance(last.get_exception(), ConnectionResetError)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_its_thread_may_come_to_its_end_before_who_closes_it(
    ends: tuple[Transport, paramiko.Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(ends) as (last, far):
        monkeypatch.setattr(ends[0].packetizer, "write_all", takes_nothing)
        last.active = False  # So closing begins.
        far.send_ignore(8)
        last.join(PATIENCE)
        assert not last.is_alive()
