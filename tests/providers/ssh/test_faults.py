"""What goes wrong with connections, on real servers: each fault has its own words, and ends."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_EOF

from providers.machines.base import Done, Endpoint
from providers.machines.connections import ConnectionPool
from providers.machines.retry import with_backoff
from providers.machines.ssh import transport
from providers.machines.ssh.machine import SshMachine
from schemas.kinds.cluster import Ssh
from schemas.problems.errors.node import HostKeyRefused, LoginRefused, NodeUnreachable
from schemas.problems.errors.provider import ProviderUnavailable
from tests.harness.processes import children, having
from tests.lab.spaces import PATIENCE
from tests.lab.sshd import SshdNode, SshdNodes, make_key
from tests.lab.stores import declared, reader
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("sshd")


@contextlib.contextmanager
def reached(node: SshdNode, **ssh: Any) -> Iterator[SshMachine]:
    machine = SshMachine(node.endpoint(**ssh))
    try:
        yield machine
    except ProviderUnavailable as error:
        error.add_note(f"the server's log:\n{node.log()[-4000:]}")
        raise
    finally:
        machine.close()


@contextlib.contextmanager
def with_key(node: SshdNode, key: Path) -> Iterator[SshMachine]:
    """With the key `own/<name>`, which stands in this file."""
    there = node.endpoint(keyFrom=f"own/{key.name}")
    files = reader(declared(key.parent, "*", name="own")).for_infrastructure

    def secret(reference: str) -> str:
        return (files if reference.startswith("own/") else node.nodes.secret)(reference)

    with contextlib.closing(SshMachine(replace(there, secret=secret))) as machine:
        yield machine


@pytest.fixture
def node(sshd_nodes: SshdNodes) -> SshdNode:
    return sshd_nodes(1)[0]


@pytest.fixture
def own(sshd_nodes: SshdNodes) -> Iterator[SshdNode]:
    """One that the test may break."""
    node = sshd_nodes.private()
    yield node
    node.kill()


# host keys


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file of known hosts, which is not there yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ssh" / "known_hosts"


def test_an_unknown_host_is_refused(node: SshdNode, at_home: Path) -> None:
    with (
        reached(node, knownHostsFrom=None) as machine,
        pytest.raises(HostKeyRefused, match="not among the known hosts") as caught,
    ):
        machine.run(["true"])
    assert not caught.value.retryable
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(node.folder / "host_key.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert shown in str(caught.value)
    assert f"ssh-keyscan {node.address} >> {at_home}" in caught.value.hint
    assert not at_home.exists()


def test_a_new_host_is_recorded_where_that_is_wanted(node: SshdNode, at_home: Path) -> None:
    known = at_home
    machines = [SshMachine(node.endpoint(knownHostsFrom=None, hostKeys="accept-new")) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert [each.code for each in threads.map(lambda m: m.run(["true"]), machines)] == [0] * 4
    for machine in machines:
        machine.close()
    assert len(known.read_text().splitlines()) == 1
    with reached(node, knownHostsFrom=None, hostKeys="strict") as machine:
        assert machine.run(["true"]).code == 0


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_changed_key_is_always_refused(own: SshdNode, at_home: Path, policy: str) -> None:
    known = at_home
    known.parent.mkdir()
    known.write_bytes(own.nodes.known_hosts.read_bytes())
    own.new_host_key()
    own.kill()
    own.start()
    with (
        reached(own, knownHostsFrom=None, hostKeys=policy) as machine,
        pytest.raises(HostKeyRefused, match=f"but {known} says ssh-ed25519 SHA256") as caught,
    ):
        machine.run(["true"])
    repair = re.search(r"ssh-keygen -R \S+ -f \S+", caught.value.hint)
    assert repair, caught.value.hint
    subprocess.run(repair.group().replace("'", "").split(), check=True, capture_output=True)
    with reached(own, knownHostsFrom=None, hostKeys="accept-new") as machine:
        assert machine.run(["true"]).code == 0


def test_a_changed_key_is_refused_by_what_a_store_pins(own: SshdNode, at_home: Path) -> None:
    pinned = reached_with(own, own.nodes.known_hosts.read_text())
    own.new_host_key()
    own.kill()
    own.start()
    with pinned as machine, pytest.raises(HostKeyRefused, match="lab/pinned") as caught:
        machine.run(["true"])
    assert "correct the secret lab/pinned" in caught.value.hint
    assert not at_home.exists()


def reached_with(node: SshdNode, known: str) -> contextlib.closing[SshMachine]:
    """With these lines of known hosts."""
    there = node.endpoint(knownHostsFrom="lab/pinned")
    key = node.nodes.secret

    def secret(reference: str) -> str:
        return known if reference == "lab/pinned" else key(reference)

    return contextlib.closing(SshMachine(replace(there, secret=secret)))


def test_hashed_revoked_and_broken_files_of_known_hosts(node: SshdNode, at_home: Path) -> None:
    key = " ".join((node.folder / "host_key.pub").read_text().split()[:2])
    known = at_home
    known.parent.mkdir()
    known.write_text(f"# mine\n\nother.example,{node.address} {key}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    assert node.address not in known.read_text()
    with reached(node, knownHostsFrom=None) as machine:
        assert machine.run(["true"]).code == 0
    known.write_text(f"@revoked * {key}\n{node.address} {key}\n")
    with reached(node, knownHostsFrom=None) as machine, pytest.raises(HostKeyRefused, match="revoked"):
        machine.run(["true"])
    known.write_text(f"{node.address} ssh-ed25519 no!base64\n")
    with (
        reached(node, knownHostsFrom=None) as machine,
        pytest.raises(HostKeyRefused, match="cannot be read"),
    ):
        machine.run(["true"])


# logging in


def test_who_has_no_key_is_told_so(node: SshdNode) -> None:
    with (
        reached(node, keyFrom=None) as machine,
        pytest.raises(LoginRefused, match=r"there is no key: no agent, and none in ~/.ssh") as caught,
    ):
        machine.run(["true"])
    assert not caught.value.retryable


def test_keys_that_do_not_help_are_named(node: SshdNode, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    make_key(tmp_path / "secret", passphrase="abcde")
    (tmp_path / "nonsense").write_text("no key\n")
    cases = {
        "stranger": "tried own/stranger",
        "secret": r"it has a passphrase: ssh-add it",
        "nonsense": "it is no private key",
    }
    for name, words in cases.items():
        with with_key(node, tmp_path / name) as machine, pytest.raises(LoginRefused, match=words):
            machine.run(["true"])
    with (
        with_key(node, tmp_path / "none") as machine,
        pytest.raises(NodeUnreachable, match="own/none cannot be read: no such file"),
    ):
        machine.run(["true"])


@pytest.mark.parametrize("kind", [["ed25519"], ["rsa", "-b", "2048"], ["ecdsa"]])
def test_all_kinds_of_keys_let_in(own: SshdNode, tmp_path: Path, kind: list[str]) -> None:
    words = ["ssh-keygen", "-q", "-t", *kind, "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    before = own.nodes.authorized.read_bytes()
    try:
        own.nodes.authorized.write_bytes(before + (tmp_path / "key.pub").read_bytes())
        with with_key(own, tmp_path / "key") as machine:
            assert machine.run(["true"]).code == 0
    finally:
        own.nodes.authorized.write_bytes(before)


def test_an_agent_lets_in(node: SshdNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a passphrase is in the agent."""
    lines = subprocess.run(
        ["ssh-agent", "-s", "-a", str(tmp_path / "agent")], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"SSH_AGENT_PID=(\d+)", lines)
    assert found
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", str(node.nodes.key)], check=True, capture_output=True)
        with reached(node, keyFrom=None) as machine:
            assert machine.run(["true"]).code == 0
    finally:
        os.kill(int(found.group(1)), 15)


# not there


def test_refused_unnamed_and_silent(sshd_nodes: SshdNodes, node: SshdNode) -> None:
    cases = [
        (Endpoint("a", node.address, ssh=Ssh(port=1)), "connection refused"),
        (Endpoint("b", "no-such-host.invalid", ssh=Ssh()), "the name is not known"),
        (
            Endpoint("c", f"{node.address.rpartition('.')[0]}.250", ssh=Ssh(connectTimeout="1s")),
            "no answer|no route",
        ),
    ]
    for endpoint, words in cases:
        with pytest.raises(NodeUnreachable, match=words) as caught:
            SshMachine(endpoint).run(["true"])
        assert caught.value.retryable


def test_what_accepts_but_is_no_ssh_server(node: SshdNode, sshd_nodes: SshdNodes) -> None:
    with socket.create_server((sshd_nodes.address, 0)) as server:
        port = server.getsockname()[1]
        endpoint = Endpoint("silent", sshd_nodes.address, ssh=Ssh(port=port, connectTimeout="1s"))
        with pytest.raises(NodeUnreachable, match=r"no SSH server greets|no answer"):
            SshMachine(endpoint).run(["true"])


def _slowly(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(512):
            time.sleep(0.02)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_slow_server_is_waited_for(node: SshdNode, sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    """512 bytes at a time, 20 ms each: a login takes many of them, and none takes too long."""
    with socket.create_server((sshd_nodes.address, 0)) as server:

        def relay() -> None:
            near = server.accept()[0]
            with near, socket.create_connection((node.address, 22)) as far:
                back = threading.Thread(target=_slowly, args=(far, near))
                back.start()
                _slowly(near, far)
                back.join()

        thread = threading.Thread(target=relay)
        thread.start()
        port = server.getsockname()[1]
        there = node.endpoint(port=port, knownHostsFrom=None, hostKeys="accept-new", connectTimeout="1m")
        machine = SshMachine(replace(there, address=sshd_nodes.address))
        assert machine.run(["cat"], stdin=b"x" * 20_000).out == b"x" * 20_000
        machine.close()
        thread.join(60)
        assert not thread.is_alive()


def test_who_failed_is_not_tried_at_once_again(node: SshdNode, monkeypatch: pytest.MonkeyPatch) -> None:
    from providers.machines.ssh import persistent

    tries = []
    opened = persistent.open_connection
    monkeypatch.setattr(persistent, "open_connection", lambda *given: tries.append(1) or opened(*given))
    now = 1000.0
    monkeypatch.setattr(persistent.time, "monotonic", lambda: now)
    monkeypatch.setattr(persistent.time, "sleep", lambda _: None)
    machine = SshMachine(Endpoint("away", node.address, ssh=Ssh(port=1)))
    for passed, expected in ((0, 1), (0.9, 1), (0.2, 2), (1.5, 2), (0.6, 3), (3.9, 3), (0.2, 4)):
        now += passed
        with pytest.raises(NodeUnreachable, match=r"connection refused \(tried 4 times\)"):
            machine.ssh_connection._ensure_connected()
        assert len(tries) == 4 * expected


def test_a_server_that_is_being_restarted_is_reached(own: SshdNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses for a moment: one attempt would call the node lost."""
    from providers.machines.ssh import persistent

    own.kill()
    opened = persistent.open_connection
    refused: list[NodeUnreachable] = []

    def noting(*given: Any) -> Any:
        try:
            return opened(*given)
        except NodeUnreachable as error:
            refused.append(error)
            raise

    # Between the attempts: one that had the server start meanwhile may take too long for another to follow.
    restarting = functools.partial(with_backoff, sleep=lambda _: own.start())
    monkeypatch.setattr(persistent, "open_connection", noting)
    monkeypatch.setattr(persistent, "with_backoff", restarting)
    with reached(own) as machine:
        assert machine.run(["echo", "here"]).out == b"here\n"
    (error,) = refused
    assert "connection refused" in str(error)


# breaking


def _waiting(machine: SshMachine) -> Future[Done]:
    """A command that runs on the node, and would for minutes."""
    seconds = f"300.{uuid.uuid4().int}"
    found = ThreadPoolExecutor(1).submit(machine.run, ["sleep", seconds], timeout=290)
    until(lambda: ["sleep", seconds] in having(seconds).values())
    return found


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Who answers late, as on a machine with much to do, is not given up meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "MOST_MISSED", 10_000)
        yield


def test_a_link_that_is_cut_ends_what_waits_and_is_mended(own: SshdNode) -> None:
    """No packet says so: only silence does."""
    with reached(own, keepAlive="3s", connectTimeout="10s") as machine:
        assert machine.run(["true"]).code == 0
        with patience():
            stream = machine.dial(("127.0.0.1", 22))
            stream.recv(4)
            waiting = _waiting(machine)
            own.link(up=False)
        # The time-out of the command, which says so in another way, is much longer.
        with pytest.raises(NodeUnreachable, match="lost"):
            waiting.result(280)
        until(lambda: stream.recv(1 << 16) == b"")
        with pytest.raises(ProviderUnavailable, match=r"no answer|no route"):
            machine.run(["true"])
        own.link(up=True)
        until(lambda: _works(machine))


def test_a_link_that_takes_nothing_any_more_is_lost_for_who_sends(own: SshdNode) -> None:
    """Before anybody reads that it has ended; what is sent then fails as on any socket."""
    with reached(own) as machine:
        stream, other = machine.dial(("127.0.0.1", 22)), machine.dial(("127.0.0.1", 22))
        stream.recv(4)
        connection = machine.ssh_connection._connection
        assert connection is not None
        connection.transport.sock.shutdown(socket.SHUT_WR)
        with pytest.raises(OSError, match=r"lost|closed"):
            stream.sendall(b"SSH-2.0-x\r\n")
        stream.close()
        other.close()
        assert machine.ssh_connection._open == 0
        until(lambda: _works(machine))


def test_a_server_that_is_killed_and_comes_back(own: SshdNode) -> None:
    with reached(own) as machine:
        waiting = _waiting(machine)
        process = machine.start(["sleep", "301"])
        own.kill()
        with pytest.raises(NodeUnreachable, match="lost"):
            waiting.result(280)
        assert list(process.read()) == []
        with pytest.raises(NodeUnreachable, match="lost"):
            process.wait()
        with pytest.raises(NodeUnreachable, match="refused"):
            machine.run(["true"])
        own.start()
        until(lambda: _works(machine))


def _works(machine: SshMachine) -> bool:
    try:
        return machine.run(["true"]).code == 0
    except ProviderUnavailable:
        return False


def test_more_commands_than_sessions_wait_for_each_other(sshd_nodes: SshdNodes) -> None:
    own = sshd_nodes.private("MaxSessions 2")
    with reached(own) as machine, ThreadPoolExecutor(20) as threads:
        assert (
            list(threads.map(lambda n: machine.run(["sh", "-c", "sleep 0.05"]).code, range(20))) == [0] * 20
        )
    assert own.log().count("Accepted publickey") == 1
    own.kill()


def below(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from below(child)


@contextlib.contextmanager
def without_files_for_more(node: SshdNode) -> Iterator[None]:
    """What serves the connections of a server can open no more files, as a command's ends are."""
    assert node.process is not None
    limits = {}
    for pid in below(node.process.pid):
        with contextlib.suppress(ProcessLookupError):  # What ran just now may be ending.
            limits[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, limits[pid][1]))
    try:
        yield
    finally:
        for pid, limit in limits.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)


def test_a_command_that_is_refused_is_asked_for_again(own: SshdNode) -> None:
    with reached(own) as machine, ThreadPoolExecutor(1) as threads:
        machine.run(["true"])
        with without_files_for_more(own):
            asked = threads.submit(machine.run, ["echo", "done"])
            until(lambda: "Too many open files" in own.log(), "it is refused", seconds=PATIENCE)
        assert asked.result(PATIENCE).out == b"done\n"
    assert own.log().count("Accepted publickey") == 1, "on the same connection"


def test_who_starts_no_commands_is_named(own: SshdNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.machines.ssh.machine.MOST_REFUSALS", 2)
    with reached(own) as machine:
        machine.run(["true"])
        with without_files_for_more(own), pytest.raises(NodeUnreachable, match="refuses to start a command"):
            machine.run(["true"])


def test_fifty_commands_and_files_share_one_connection(own: SshdNode, tmp_path: Path) -> None:
    with reached(own) as machine, ThreadPoolExecutor(50) as threads:
        list(threads.map(lambda n: machine.put(f"{tmp_path}/{n}", b"x" * 100_000), range(25)))
        found = list(threads.map(lambda n: machine.get(f"{tmp_path}/{n}"), range(25)))
    assert found == [b"x" * 100_000] * 25
    assert own.log().count("Accepted publickey") == 1


def test_what_is_said_after_the_end_of_a_command_harms_no_other(own: SshdNode) -> None:
    """OpenSSH ends the connection for it, and everybody's commands with it."""
    with reached(own) as machine:
        channel = machine.ssh_connection.channel(lambda each: each.transport.open_session())
        channel.exec_command("true")
        until(lambda: channel.closed, "it has ended", seconds=PATIENCE)
        late = paramiko.Message()
        late.add_byte(cMSG_CHANNEL_EOF)
        late.add_int(channel.remote_chanid)
        channel.get_transport().packetizer.send_message(late)
        assert machine.run(["cat"], stdin=b"on the same\n").out == b"on the same\n"
        assert machine.run(["cat"]).out == b"", "one without input is at its end at once"
    assert own.log().count("Accepted publickey") == 1


# ways


def test_jump_hosts_are_gone_through(sshd_nodes: SshdNodes) -> None:
    first, last = sshd_nodes(2)
    middle = sshd_nodes.private(port=2022)
    chain = f"{first.address}, root@{middle.address}:2022"
    with reached(last, jump=chain) as machine:
        done = machine.run(["sh", "-c", "echo $SSH_CONNECTION"])
        assert done.out.decode().split()[0] == middle.address
    assert f"Accepted publickey for root from {sshd_nodes.address}" in first.log()
    assert f"Accepted publickey for root from {first.address}" in middle.log()
    middle.kill()
    with (
        reached(last, jump=f"{first.address},root@{middle.address}:2022") as machine,
        pytest.raises(NodeUnreachable, match=rf"\[{middle.address}\]:2022: the jump host refuses"),
    ):
        machine.run(["true"])


def test_a_link_behind_a_jump_host_that_is_cut_is_noticed(sshd_nodes: SshdNodes, own: SshdNode) -> None:
    """The connection to the jump host stays: only the node's own silence tells."""
    first = sshd_nodes(1)[0]
    with reached(own, jump=first.address, keepAlive="3s", connectTimeout="10s") as machine:
        assert machine.run(["true"]).code == 0
        with patience():
            waiting = _waiting(machine)
            own.link(up=False)
        with pytest.raises(NodeUnreachable, match="lost"):
            waiting.result(280)
        own.link(up=True)


def test_the_users_own_configuration_is_heeded(sshd_nodes: SshdNodes) -> None:
    first, last = sshd_nodes(2)
    config = sshd_nodes.home / ".ssh" / "config"
    config.write_text(
        f"Host gpu-*\n  HostName {last.address}\n  User root\n  IdentityFile {sshd_nodes.key}\n"
        f"  IdentityFile /nowhere\n  ProxyJump hop\nHost hop\n  HostName {first.address}\n  User root\n"
        f"  IdentityFile {sshd_nodes.key}\n"
    )
    try:
        endpoint = Endpoint(
            "gpu-1", "gpu-1", ssh=Ssh(knownHostsFrom="lab/known_hosts"), secret=sshd_nodes.secret
        )
        machine = SshMachine(endpoint)
        assert machine.run(["sh", "-c", "echo $SSH_CONNECTION"]).out.decode().split()[0] == first.address
        machine.close()
        config.write_text("Host *\n  Port twenty\n")
        with pytest.raises(NodeUnreachable, match="SSH settings"):
            SshMachine(endpoint).run(["true"])
    finally:
        config.unlink()


_SUDO = """#!/bin/sh
[ "$1 $2" = "-n --" ] || exit 99
shift 2
HOW=sudo exec "$@"
"""
_NO_SUDO = """#!/bin/sh
echo 'sudo: a password is required' >&2
exit 1
"""


def test_sudo_runs_everything_or_says_why_not(sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    """A stand-in, so that the machine's own users and rights stay as they are."""
    own = sshd_nodes.private(f"SetEnv HOME={sshd_nodes.home} PATH={tmp_path}:/usr/bin:/bin")
    stand_in = tmp_path / "sudo"
    stand_in.write_text(_SUDO)
    stand_in.chmod(0o755)
    with reached(own, sudo=True) as machine:
        done = machine.run(["sh", "-c", 'echo "$HOW $A $1"', "sh", "a  b"], env={"A": "'x'"})
        assert done.out == b"sudo 'x' a  b\n"
        assert machine.run(["no-such-command"]).code == 127
        machine.put(f"{tmp_path}/f", b"1")
        assert machine.get(f"{tmp_path}/f") == b"1"
        process = machine.start(["sh", "-c", "echo $HOW"])
        assert (list(process.read()), process.wait()) == ([b"sudo\n"], 0)
        process.close()
        stand_in.write_text(_NO_SUDO)
        with pytest.raises(LoginRefused, match="a password is required"):
            machine.run(["true"])
        with pytest.raises(LoginRefused, match="a password is required"):
            machine.start(["true"])
    own.kill()


def test_a_pool_keeps_few_connections(sshd_nodes: SshdNodes) -> None:
    nodes = sshd_nodes(3)
    pool = ConnectionPool(2)
    before = sum(node.log().count("Accepted publickey") for node in nodes)
    machines = [pool.get(node.endpoint()) for node in nodes]
    for machine in [*machines, machines[0]]:
        assert machine.run(["true"]).code == 0
    live = [machine.ssh_connection.connected for machine in machines if isinstance(machine, SshMachine)]
    assert live == [True, False, True]
    assert pool.get(nodes[0].endpoint()) is machines[0]
    stream = machines[0].dial(("127.0.0.1", 22))
    for machine in machines[1:]:
        assert machine.run(["true"]).code == 0
    assert stream.recv(4) == b"SSH-", "one in use is not closed"
    stream.close()
    logins = sum(node.log().count("Accepted publickey") for node in nodes) - before
    assert logins == 6, "who has just logged in is not closed before it was used"
    pool.close()
    assert not any(m.ssh_connection.connected for m in machines if isinstance(m, SshMachine))
