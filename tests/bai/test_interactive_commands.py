"""bai attach, cp, port-forward, top, logs and events on real sessions, as a person and a script use them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.bai.conftest import PATIENCE, Repo, new_repo, tidy
from tests.bai.test_running_commands import next_line
from tests.waiting import until

pytestmark = pytest.mark.slow
UNPACKS = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="Python 3.11.4 or newer is needed to unpack archives safely"
)
ROOT = Path(__file__).parents[2]
SPOKEN = "main1 | up\nsub1  | up\n"
SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    stream, _ = server.accept()
    stream.sendall(b"hello")
    stream.close()
"""


def terminal(repo: Repo, *words: str) -> pexpect.spawn:  # type: ignore[type-arg]
    code = "from bai.cli.main import main; main()"
    return pexpect.spawn(
        sys.executable,
        ["-c", code, "-C", str(repo.root), *words],
        env={**os.environ, **repo.env, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
        cwd=str(ROOT),
        encoding="utf-8",
        timeout=PATIENCE,
        use_poll=True,
        dimensions=(30, 100),
    )


def left(child: pexpect.spawn) -> int | None:  # type: ignore[type-arg]
    child.expect(pexpect.EOF)
    child.close()
    code: int | None = child.exitstatus
    return code


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """Applied once: one with a terminal, one of two containers, one that serves a port."""
    repo = new_repo(tmp_path_factory.mktemp("world"))
    repo.session("lab", "sh", "-i", extra="  tty: true\n")
    roles = "  cluster: {mode: single-node, roles: {main: 1, sub: 1}}\n"
    repo.session("pair", "sh", "-c", "echo up; exec sleep 1000", extra=roles)
    repo.session("server", "python3", "-c", SERVER, extra="  ports: [{name: hello, port: 7}]\n")
    try:
        repo.ok("apply", "--yes")
        until(lambda: repo.ok("logs", "server").out.endswith("\n"), "the server serves")
        until(lambda: repo.ok("logs", "--all", "pair").out == SPOKEN, "both containers have spoken")
        yield repo
    finally:
        tidy(repo)


# attach


def test_attach_leaves_and_returns(world: Repo) -> None:
    child = terminal(world, "attach", "lab")
    child.expect("Ctrl-P Ctrl-Q leaves.")
    child.sendline("X=kept; echo he''re")
    child.expect("here")
    child.send("\x10\x11")
    assert left(child) == 0
    child = terminal(world, "attach", "demo/lab/main1")
    child.expect("leaves")
    child.sendline("echo is-$X; stty size")
    child.expect("is-kept")
    child.expect("30 100")
    child.send("\x10\x11")
    assert left(child) == 0


def test_attach_without_a_terminal_shows_output_until_interrupted(world: Repo) -> None:
    child = terminal(world, "attach", "pair")
    child.expect("main1 has no terminal")
    child.sendintr()
    assert left(child) == 0


# cp


@UNPACKS
def test_cp_of_files_and_folders(world: Repo, tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "run").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "data" / "sub" / "run").chmod(0o755)
    assert "copied 1 file" in world.ok("cp", str(tmp_path / "data"), "lab:").err
    assert world.process("exec", "lab", "--", "data/sub/run").out == "ran\n"
    world.ok("cp", "-q", str(tmp_path / "data") + "/.", "pair/sub1:.")
    assert world.process("exec", "pair/sub1", "--", "sub/run").out == "ran\n"
    world.ok("cp", str(tmp_path / "data" / "sub" / "run"), "lab:other")
    assert world.process("exec", "lab", "--", "./other").out == "ran\n"
    world.ok("cp", "lab:data", str(tmp_path / "back"))
    world.ok("cp", "lab:data", str(tmp_path / "back"))
    assert (tmp_path / "back" / "sub" / "run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "back" / "data" / "sub" / "run").exists()
    world.ok("cp", "lab:data/sub/run", str(tmp_path / "run"))
    assert (tmp_path / "run").read_text().endswith("ran\n")


def test_cp_of_streams(world: Repo, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("through a pipe")
    made = tmp_path / "x.tar"
    with tarfile.open(made, "w") as archive:
        archive.add(tmp_path / "f", "streamed")
    with made.open("rb") as source:
        assert world.process("cp", "-", "lab:", stdin=source).code == 0
    with (tmp_path / "y.tar").open("wb") as target:
        world.process("cp", "lab:streamed", "-", stdout=target)
    with tarfile.open(tmp_path / "y.tar") as archive:
        stream = archive.extractfile("streamed")
        assert stream is not None and stream.read() == b"through a pipe"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("lab:nope", "."), "Cannot copy nope"),
        (("none", "lab:"), "none is not there"),
        (("cluster.yaml", "lab:no/such/"), "is not a folder there"),
        (("lab:/etc/hostname", "no/such"), "is not a folder"),
        (("a", "b"), "one side must be in a session"),
        (("lab:a", "pair:b"), "one side must be in a session"),
        (("nobody:a", "."), "There is no session named nobody"),
    ],
)
@UNPACKS
def test_cp_says_what_is_wrong(
    world: Repo, words: tuple[str, str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.root)
    before = sorted(world.root.iterdir())
    said = world("cp", *words)
    assert said.code == 1 and error in said.err
    assert sorted(world.root.iterdir()) == before


@UNPACKS
def test_cp_leaves_out_what_leads_out(world: Repo, tmp_path: Path) -> None:
    world.process("exec", "lab", "--", "sh", "-c", "mkdir -p odd; echo x >odd/f; ln -s /etc odd/out")
    said = world("cp", "lab:odd", str(tmp_path / "odd"))
    assert said.code == 1 and "left out: " in said.err and "copied 1 file" in said.err
    assert [path.name for path in (tmp_path / "odd").iterdir()] == ["f"]


# port-forward


def test_port_forward_until_interrupted(world: Repo) -> None:
    port = world.ok("logs", "server").out.strip()
    with world.start("port-forward", "server", f"0:{port}", "0:hello") as started:
        lines = [next_line(started), next_line(started)]
        assert lines[0].endswith(f"-> server:{port}\n") and lines[1].endswith("-> server:7 (hello)\n")
        local = [int(line.split(" ")[0].rpartition(":")[2]) for line in lines]
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", local[0]), timeout=60) as stream:
                assert stream.recv(100) == b"hello"
        with socket.create_connection(("127.0.0.1", local[1]), timeout=60) as stream:
            assert stream.recv(100) == b""
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0
    assert "a connection failed: Port 7 of kernel" in err


def test_port_forward_says_what_is_wrong(world: Repo) -> None:
    assert "the session names hello" in world("port-forward", "server", "web").err
    assert "names no ports" in world("port-forward", "lab").err


# top


def test_top_once_and_as_json(world: Repo) -> None:
    lines = world.ok("top", "--interval", "0.2", "--sort", "name").out.splitlines()
    assert lines[0].split("  ")[0] == "SESSION" and "CPU %" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["demo/lab", "main1"],
        ["demo/pair", "all"],
        ["demo/pair", "main1"],
        ["demo/pair", "sub1"],
        ["demo/server", "main1"],
    ]
    found = world.ok("top", "pair", "--interval", "0.2", "--format", "json").json
    assert found["version"] == "bai.top/v1"
    assert [row["kernel"] for row in found["kernels"]] == ["main1", "sub1"]
    assert all(row["memoryLimit"] == 64 << 20 and row["cpuPercent"] >= 0 for row in found["kernels"])
    assert world("top", "nobody").code == 1


def test_top_is_live_on_a_terminal(world: Repo) -> None:
    child = terminal(world, "top", "--interval", "0.3")
    for _ in range(2):
        child.expect("SESSION")
        child.expect("demo/pair")
    child.sendintr()
    assert left(child) == 0


# logs and events


def test_logs_of_all_containers(world: Repo) -> None:
    assert world.ok("logs", "--all", "pair").out == SPOKEN
    assert world.ok("logs", "--all", "pair", "--since", "1d").out.count("up") == 2
    with world.start("logs", "-f", "-a", "pair") as started:
        assert {next_line(started), next_line(started)} == {"main1 | up\n", "sub1  | up\n"}
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=PATIENCE) == 0


def test_logs_since_a_time(world: Repo) -> None:
    assert world.ok("logs", "pair", "--since", "2000-01-01").out == "up\n"
    assert world.ok("logs", "pair", "--since", "2999-01-01").out == ""
    assert "is neither a time nor a duration" in world("logs", "pair", "--since", "then").err
    assert world("logs", "pair", "--since", "1d", "--tail", "1").code == 1


def test_events_live_tell_of_containers(repo: Repo) -> None:
    repo.ok("apply", "--yes")
    with repo.start("events", "-f", "--live", "--format", "json") as started:
        next_line(started)
        heard: list[dict[str, Any]] = []
        for number in range(20):
            # The first looks of the follower may come late: what is there already is no news.
            repo.session(f"late{number}", "sleep", "1000")
            repo.ok("apply", "--yes")
            while not heard or heard[-1].get("resource") != f"Session/demo/late{number}" or not done(heard):
                heard.append(json.loads(next_line(started)))
                if heard[-1].get("after") == "RUNNING":
                    break
            if done(heard):
                break
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=PATIENCE) == 0
    assert done(heard)
    assert repo("events", "--live").code == 1


def done(heard: list[dict[str, Any]]) -> bool:
    return any(event["version"] == "bai.kernelevent/v1" and event["what"] == "started" for event in heard)


# without the ability


def test_a_provider_that_cannot_says_so(repo: Repo) -> None:
    path = repo.write("cluster.yaml", (repo.root / "cluster.yaml").read_text().replace("process", "declared"))
    try:
        for words in (("cp", "lab:a", "."), ("attach", "lab"), ("port-forward", "lab", "80"), ("top",)):
            said = repo(*words)
            assert said.code == 1 and "Provider declared cannot" in said.err, said.err
    finally:
        path.write_text(path.read_text().replace("declared", "process"))


# completion


def test_sessions_are_completed(world: Repo) -> None:
    code = "from bai.cli.main import main\nmain()"

    def complete(*words: str) -> set[str]:
        line = " ".join(["bai", "-C", str(world.root), *words])
        environment = {
            **{"_BAI_COMPLETE": "complete_bash", "COMP_WORDS": line},
            "COMP_CWORD": str(len(words) + 2),
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return set(done.stdout.split())

    assert complete("attach", "pa") == {"pair", "pair/main1", "pair/sub1"}
    assert complete("open", "pa") == {"pair"} and complete("share", "serv") == {"server"}
    assert complete("open", "server", "h") == {"hello"} and complete("open", "pair", "h") == set()
    assert complete("cp", "l") >= {"lab:"}
