"""Where a node is and how to log in there: documents first, then the user's own configuration."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.machines.base import Endpoint
from providers.machines.ssh.route import Hop, Route, ssh_route
from providers.machines.ssh.signals import signal_number
from providers.machines.ssh.trust import HostKeys, describe_key, record_key
from schemas.kinds.cluster import Ssh
from schemas.problems.errors.node import HostKeyRefused

CONFIG = """
Host gpu-*
  HostName %h.example.org
  User alice
  Port 2200
  IdentityFile ~/.ssh/own
  ProxyJump gate
  ConnectTimeout 3
  ServerAliveInterval 7
  StrictHostKeyChecking accept-new
Host gate
  HostName gate.example.org
  User guard
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "me")
    monkeypatch.setenv("LOGNAME", "me")
    return tmp_path


def way(address: str, config: str = "", **ssh: Any) -> Route:
    parsed = paramiko.SSHConfig()
    parsed.parse(io.StringIO(config))
    return ssh_route(Endpoint("node", address, ssh=Ssh(**ssh), secret="the {}".format), parsed)


def test_what_is_usual_without_any_settings(home: Path) -> None:
    found = way("10.0.0.1")
    assert found.target == Hop("10.0.0.1", 22, "me")
    assert (found.jumps, found.timeout, found.keep_alive, found.sudo, found.record_new) == (
        (),
        10,
        15,
        False,
        False,
    )
    assert found.known_hosts == (f"{home}/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


def test_the_users_configuration(home: Path) -> None:
    found = way("gpu-1", CONFIG)
    assert found.target == Hop("gpu-1.example.org", 2200, "alice", (f"{home}/.ssh/own",))
    assert found.jumps == (Hop("gate.example.org", 22, "guard"),)
    assert (found.timeout, found.keep_alive, found.record_new) == (3, 7, True)


def test_documents_win(home: Path) -> None:
    found = way(
        "gpu-1", CONFIG, user="root", port=22, keyFrom="lab/k", jump="none", connectTimeout="5s",
        keepAlive="1m", hostKeys="strict", knownHostsFrom="lab/hosts", sudo=True,
    )  # fmt: skip
    assert found.target == Hop("gpu-1.example.org", 22, "root", (), "the lab/k", "lab/k")
    assert (found.jumps, found.timeout, found.keep_alive, found.sudo) == ((), 5, 60, True)
    assert found.record_new is False
    assert (found.own_hosts, found.own_hosts_name) == ("the lab/hosts", "lab/hosts")
    assert "the lab" not in repr(found)


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("a", [("a", 22, "root")]),
        ("bob@a:2022 , gate", [("a", 2022, "bob"), ("gate.example.org", 22, "guard")]),
        ("[fd00::1]:23,[fd00::2]", [("fd00::1", 23, "root"), ("fd00::2", 22, "root")]),
    ],
)
def test_jump_hosts(text: str, hops: list[tuple[str, int, str]]) -> None:
    found = way("10.0.0.1", CONFIG, user="root", jump=text)
    assert [(hop.host, hop.port, hop.user) for hop in found.jumps] == hops


def test_names_in_files_of_known_hosts() -> None:
    assert Hop("a").entry == "a"
    assert Hop("a", 2022).entry == "[a]:2022"


def _trust(path: Path, *, record_new: bool = False, hop: Hop = Hop("a", 2022)) -> HostKeys:  # noqa: B008
    return HostKeys("node", hop, Route(hop, known_hosts=(str(path),), record_new=record_new))


KEYS = [paramiko.ECDSAKey.generate() for _ in range(2)]


def test_a_known_key_of_several_is_fine_and_preferred(tmp_path: Path) -> None:
    path = tmp_path / "known"
    for key in KEYS:
        record_key(path, "[a]:2022", key)
        record_key(path, "[a]:2022", key)
    assert len(path.read_text().splitlines()) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    trust = _trust(path)
    for key in KEYS:
        trust.check(key)
    assert trust.prefer(["ssh-ed25519", "rsa-sha2-512", "ecdsa-sha2-nistp256"])[0] == "ecdsa-sha2-nistp256"
    with pytest.raises(HostKeyRefused, match="not among the known"):
        _trust(path, hop=Hop("a", 22)).check(KEYS[0])


def test_a_changed_key_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "known"
    record_key(path, "[a]:2022", KEYS[0])
    with pytest.raises(HostKeyRefused, match=r"somebody may be in between"):
        _trust(path, record_new=True).check(KEYS[1])
    assert len(path.read_text().splitlines()) == 1


def test_lines_that_name_a_host_hashed_revoked_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "known"
    lines = [f"{key.get_name()} {key.get_base64()}" for key in KEYS]
    hashed = [paramiko.HostKeys.hash_host(name) for name in ("b", "[a]:2022")]
    path.write_text(f"{hashed[0]} {lines[0]}\nb,{hashed[1]} {lines[1]}\nodd\n* unknown-kind AAAA\n")
    with pytest.raises(HostKeyRefused, match="somebody may be in between"):
        _trust(path).check(KEYS[0])
    _trust(path).check(KEYS[1])
    with path.open("a") as file:
        file.write(f"  @revoked * {lines[1]}\n")
    with pytest.raises(HostKeyRefused, match="revoked"):
        _trust(path).check(KEYS[1])
    path.write_text(f"|1|AAAA|BBBB {lines[0]}\n")
    with pytest.raises(HostKeyRefused, match=r"cannot be read: .* is no hashed name"):
        _trust(path)


def test_a_file_without_a_last_newline_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text("# mine")
    record_key(path, "a", KEYS[0])
    assert path.read_text() == f"# mine\na {KEYS[0].get_name()} {KEYS[0].get_base64()}\n"


_PUBLIC = "AAAAC3NzaC1lZDI1NTE5AAAAIGOXDDpzWqeycW/Adu4LwiJgy3DePpIXzH8kizDJ36k6"


def test_fingerprints_are_as_openssh_prints_them() -> None:
    key = paramiko.PKey.from_type_string("ssh-ed25519", base64.b64decode(_PUBLIC))
    assert describe_key(key) == "ssh-ed25519 SHA256:BgaG9cEAGvRZpDacjZ2XGC3mYoJO2RCFEOlcUhFCkiQ"


@given(st.text(max_size=20))
def test_any_name_of_a_signal_has_a_number(name: str) -> None:
    assert 0 <= signal_number(name) < 65


def test_signals() -> None:
    assert [
        signal_number("KILL"),
        signal_number("TERM"),
        signal_number("SEGV"),
        signal_number("odd@openssh.com"),
    ] == [9, 15, 11, 0]
