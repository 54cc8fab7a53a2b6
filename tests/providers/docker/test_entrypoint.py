"""The entry script under the shells that images have: secrets, peers, signals, the command's own end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from providers.base import File, Peer, SshLogin
from providers.docker.container import entrypoint, ssh_login
from tests.providers.docker.specs import kernel
from tests.waiting import until

SEED = "ab" * 32
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
PEERS = (Peer("main1", "127.0.0.1", 20_001), Peer("sub1", "127.0.0.2", 20_002))
HARD = {"A": "plain", "B": 'it\'s "quoted" $HOME `x` \\', "C": "two\nlines\n", "D": "", "E": "ünï"}


@pytest.fixture(params=SHELLS, ids=lambda argv: argv[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"{request.param[0]} is not here")
    argv: list[str] = request.param
    return argv


def unpacked(folder: Path, **fields: object) -> dict[str, tarfile.TarInfo]:
    """The folder of a kernel, with its scripts led there instead of to /run/bai."""
    with tarfile.open(fileobj=BytesIO(entrypoint.archive(kernel(**fields)))) as tar:  # type: ignore[arg-type]
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        found = {member.name: member for member in tar.getmembers()}
    for name in ("entry", "login"):
        path = folder / name
        if path.exists():
            path.write_text(path.read_text().replace("/run/bai", str(folder)))
    return found


def run(shell: list[str], folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*shell, str(folder / "entry"), *argv],
        env={"PATH": os.environ["PATH"], **env}, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
        check=False,
    )  # fmt: skip


def test_secrets_arrive_whole(shell: list[str], tmp_path: Path) -> None:
    unpacked(tmp_path, secret_env=HARD)
    done = run(shell, tmp_path, "env", "-0", OTHER="kept")
    found = dict(each.split("=", 1) for each in done.stdout.decode().split("\0") if each)
    assert {**HARD, "OTHER": "kept"}.items() <= found.items()
    assert not {"found", "left", "line", "old", "peer", "name"} & found.keys()


def test_the_end_is_the_commands_own(shell: list[str], tmp_path: Path) -> None:
    unpacked(tmp_path, secret_env={"A": "b"})
    assert run(shell, tmp_path, "sh", "-c", "exit 7").returncode == 7
    assert run(shell, tmp_path, "sh", "-c", "kill -9 $$").returncode == -9
    assert run(shell, tmp_path, "printf", "%s|", "a b", "", "*").stdout == b"a b||*|"
    nothing = run(shell, tmp_path)
    assert nothing.returncode == 127 and b"no command" in nothing.stderr


def test_it_waits_for_peers_and_hears_signals_meanwhile(shell: list[str], tmp_path: Path) -> None:
    unpacked(tmp_path, login=SshLogin(2200, PEERS, "session-key:x", SEED))
    path = tmp_path / "entry"
    path.write_text(path.read_text().replace("</etc/hosts", f"<{tmp_path}/hosts"))
    (tmp_path / "hosts").write_text("127.0.0.1\tlocalhost main1\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sleep", "cat", "env", "id", "mkdir", "chmod", "grep", "echo"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "getent").write_text(f"#!/bin/sh\necho >>{tmp_path}/asked-$WHO\nexit 2\n")
    (tools / "getent").chmod(0o755)
    for name in shell[:1]:
        (tools / name).symlink_to(shutil.which(name) or name)
    process = subprocess.Popen(
        [*shell, str(path), "echo", "together"],
        env={"PATH": str(tools), "HOME": str(tmp_path), "WHO": "process"},
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    waiting = subprocess.Popen(
        [*shell, str(path), "echo", "never"],
        env={"PATH": str(tools), "HOME": str(tmp_path), "WHO": "waiting"},
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip

    def has_asked(who: str) -> bool:
        asked = tmp_path / f"asked-{who}"
        return asked.exists() and len(asked.read_text()) >= 3

    until(lambda: has_asked("process") and has_asked("waiting"), "both wait for their peers")
    assert process.poll() is None and waiting.poll() is None
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == 143
    (tmp_path / "hosts").write_text("127.0.0.1\tlocalhost main1\n127.0.0.2\tsub1\n")
    out, _ = process.communicate(timeout=60)
    assert out == b"together\n"


def test_a_signal_ends_it_from_its_first_moment_on(shell: list[str], tmp_path: Path) -> None:
    unpacked(tmp_path, secret_env={"A": "b"})
    with (tmp_path / "secrets").open("a") as secrets:
        secrets.write("kill -s TERM $$\n")
    done = run(shell, tmp_path, "echo", "never")
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")


def test_signals_are_the_commands_own_when_it_has_begun(shell: list[str], tmp_path: Path) -> None:
    unpacked(tmp_path, secret_env={"A": "b"})
    assert run(shell, tmp_path, "sh", "-c", "kill -s TERM $$").returncode == -signal.SIGTERM


def test_keys_belong_to_nobody_and_settings_to_root(tmp_path: Path) -> None:
    given = SshLogin(2200, PEERS, "session-key:x", SEED, slots={"main1": 8, "sub1": 8})
    found = unpacked(tmp_path, login=given, secret_env={"A": "b"}, files=(File("topo.xml", "<x/>", "T"),))
    assert found["ssh/key"].uid == found["ssh/host_key"].uid != 0
    assert found["ssh/config"].uid == found["ssh/sshd_config"].uid == found["entry"].uid == 0
    assert (tmp_path / "hostfile").read_text() == "main1 slots=8\nsub1 slots=8\n"
    assert (tmp_path / "topo.xml").read_text() == "<x/>"


def test_the_key_pair_follows_from_the_seed() -> None:
    first = dict(ssh_login.ssh_files(SshLogin(2200, PEERS, "r", SEED)))
    other = dict(ssh_login.ssh_files(SshLogin(20_002, PEERS, "r", SEED)))
    assert first["key.pub"] == other["key.pub"] == first["authorized_keys"]
    assert first["known_hosts"] == other["known_hosts"]
    assert first["key.pub"].split()[1] not in first["known_hosts"]
    assert dict(ssh_login.ssh_files(SshLogin(2200, PEERS, "r", "cd" * 32)))["key.pub"] != first["key.pub"]
    assert "Host sub1\n    HostName 127.0.0.2\n    Port 20002\n" in first["config"]
    assert "Port 20002\n" in other["sshd_config"]


def test_kernels_without_either_need_no_script() -> None:
    assert not entrypoint.is_needed(kernel())
    assert entrypoint.is_needed(kernel(secret_env={"A": "b"}))
    assert entrypoint.wrap_command(["/docker-entrypoint", "run"])[-2:] == ["/docker-entrypoint", "run"]
    assert replace(kernel(), secret_env={"A": "hidden"}).__repr__().count("hidden") == 0
