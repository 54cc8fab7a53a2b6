"""Terminals, files, ports, use and events of native processes, in every mode of this machine."""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pexpect
import pytest

from providers.abilities import (
    AttachesTerminal,
    CopiesFiles,
    ForwardsPorts,
    MeasuresUsage,
    RecallsLogs,
    StreamsEvents,
    Usage,
)
from providers.base import RestartRule
from providers.process.provider import ProcessProvider
from providers.process.supervision import logfile
from providers.process.supervision.console import MOST_BEHIND, PATIENCE, Client, Console, frame
from schemas.problems.errors.kernel import CopyRefused, NotRunning, PortRefused
from tests.harness.ports import free_port
from tests.harness.processes import having
from tests.providers.process.kernels import UID, ended, output, said, script, seen, spec
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[3]
CALLER = """
import sys
from pathlib import Path
from providers.process.provider import ProcessProvider
provider = ProcessProvider(Path(sys.argv[1]), sandbox=sys.argv[2] == "True", cgroups=sys.argv[3] == "True")
sys.exit(provider.attach(sys.argv[4], stdin=sys.stdin.buffer))
"""
NAME = spec().id


def attach(provider: ProcessProvider) -> pexpect.spawn:  # type: ignore[type-arg]
    sandbox, groups = provider._wanted
    arguments = ["-c", CALLER, str(provider.root.path), str(sandbox), str(groups), NAME]
    return pexpect.spawn(
        sys.executable,
        arguments,
        env={**os.environ, "TERM": "xterm"},
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


def prompted(child: pexpect.spawn) -> None:  # type: ignore[type-arg]
    child.sendline("echo he''re")
    child.expect("here")
    child.expect("[$#] ")


def test_it_has_every_ability(provider: ProcessProvider) -> None:
    for ability in (AttachesTerminal, CopiesFiles, ForwardsPorts, MeasuresUsage, RecallsLogs, StreamsEvents):
        assert isinstance(provider, ability)


# terminals


def test_a_shell_is_left_running_and_found_again(provider: ProcessProvider) -> None:
    provider.create(spec("sh", "-i", tty=True))
    child = attach(provider)
    prompted(child)
    child.sendline("X=kept; stty size; echo $TERM")
    child.expect("31 97")
    child.expect("xterm")
    child.send("\x10")
    child.send("\x11")
    assert left(child) == 0
    assert seen(provider, NAME).state == "running"
    child = attach(provider)
    prompted(child)
    child.sendline("echo is-$X; exit 9")
    child.expect("is-kept")
    assert left(child) == 9
    assert ended(provider, NAME).exit_code == 9
    assert b"is-kept" in output(provider, NAME)


def test_the_window_and_the_keyboards_signals_reach_the_command(provider: ProcessProvider) -> None:
    provider.create(spec("sh", "-i", tty=True))
    child = attach(provider)
    prompted(child)
    child.setwinsize(40, 120)
    size = ""
    while size != "40 120":
        child.sendline("stty size; echo d''one")
        child.expect(r"(\d+ \d+)\s+done")
        size = child.match[1] if isinstance(child.match, re.Match) else ""
    # What the terminal echoes is not yet read by the shell, and Ctrl-C would throw it away; while the shell
    # starts the command, it is for neither of the two.
    seconds = f"86{free_port()}"
    child.sendline(f"trap '' TERM; sleep {seconds}")
    until(lambda: ["sleep", seconds] in having(seconds).values(), "the command runs")
    child.sendintr()
    child.expect("[$#] ")
    child.sendline("echo co''de=$?")
    child.expect("code=130")
    child.close(force=True)
    provider.stop(NAME, grace=0)
    assert ended(provider, NAME).reason == "stopped"


def test_two_see_the_same_and_one_that_never_reads_is_let_go(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    text = "while read line; do yes $line | head -c 3000000; echo e''nd; done"
    provider.create(spec("sh", "-ic", text, tty=True))
    deaf, heard = attached(provider), attached(provider)
    heard.sendall(frame(b"i", b"go\n"))
    shown = b""
    while b"end" not in shown[-200:]:
        data = heard.recv(65536)
        assert data
        shown += data
    assert len(shown) > 3_000_000
    given = b"".join(iter(lambda: deaf.recv(65536), b""))  # all that it was given until it was let go
    assert len(given) < len(shown)
    provider.stop(NAME, grace=0)
    deaf.close()
    heard.close()


def test_output_waits_for_one_who_reads_slowly(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    text = "read line; yes $line | head -c 3000000; echo e''nd; cat"
    provider.create(spec("sh", "-ic", text, tty=True))
    slow = attached(provider)
    slow.sendall(frame(b"i", b"go\n"))
    until(lambda: len(output(provider, NAME)) > MOST_BEHIND, "more is shown than one may be behind")
    shown = b""
    while b"end" not in shown[-200:]:
        data = slow.recv(65536)
        assert data
        shown += data
    assert shown.count(b"go\r\n") >= 999_000
    slow.close()


def test_one_who_takes_nothing_holds_output_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(str(tmp_path))
    reader, deaf = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2))
    for each in (reader, deaf):
        each.connect(str(tmp_path / "console"))
        each.setblocking(False)
        console.handle([descriptor for descriptor, _ in console.wants()])

    def read() -> int:
        """All that the reader can have."""
        count = 0
        while True:
            console.handle([descriptor for descriptor, _ in console.wants()])
            with contextlib.suppress(BlockingIOError):
                while data := reader.recv(1 << 20):
                    count += len(data)
                return -1
            if not console._clients[min(console._clients)].behind:
                return count

    sent = 0
    while not console.holds_output():
        console.show(b"x" * (1 << 16))
        sent += 1 << 16
    assert sent > MOST_BEHIND
    assert read() == sent
    assert console.holds_output() and console.due() is not None
    later = time.monotonic() + PATIENCE
    monkeypatch.setattr(time, "monotonic", lambda: later)
    console.handle([])
    assert (console.holds_output(), console.due()) == (False, None)
    console.show(b"more")
    assert read() == len(b"more")
    deaf.setblocking(True)
    assert len(b"".join(iter(lambda: deaf.recv(1 << 20), b""))) < sent
    console.close()
    reader.close()
    deaf.close()


def attached(provider: ProcessProvider) -> socket.socket:
    from providers.process.interaction.attach import _connect

    record = provider.root.read(NAME)
    assert record is not None
    stream = _connect(record)
    stream.settimeout(60)
    return stream


def test_frames_may_come_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    client = Client(ours)
    for byte in frame(b"i", b"abc") + frame(b"w", b"1234"):
        client.sent += bytes([byte])
        if byte == ord("c"):
            assert client.frames() == [(b"i", b"abc")]
    assert client.frames() == [(b"w", b"1234")]
    ours.close()
    theirs.close()


def test_a_restarted_command_has_a_fresh_terminal(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    text = "[ -e again ] && exec sh -i; touch again; stty -echo; exit 1"
    provider.create(spec("sh", "-c", text, tty=True, restart=RestartRule("on-failure", 1)))
    until(lambda: seen(provider, NAME).restarts == 1, "it runs again")
    child = attach(provider)
    prompted(child)
    child.sendline("exit 2")
    assert left(child) == 2


def test_without_a_terminal_its_output_is_shown(provider: ProcessProvider) -> None:
    provider.create(script("echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; exit 3"))
    said(provider, NAME, b"before")
    child = attach(provider)
    until(lambda: follows(child.pid), "it waits at the end of the log")
    (provider.root.folder(NAME) / "scratch" / "go").touch()
    child.expect("after")
    assert "before" not in str(child.before)
    assert left(child) == 3
    with pytest.raises(NotRunning):
        provider.attach(NAME)


def follows(pid: int | None) -> bool:
    """Whether it is at a place in the log: where it was opened just now there is none yet."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # Closed since it was listed.
            place = (link.parent.parent / "fdinfo" / link.name).read_text().split()[:2]
            if os.readlink(link).endswith("/logs/log") and place == ["pos:", str(len("before\n"))]:
                return True
    return False


# files


def packed(files: dict[str, bytes], mode: int = 0o640) -> Iterator[bytes]:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid = len(content), mode, 4321
            archive.addfile(member, io.BytesIO(content))
    return iter([made.getvalue()])


def unpacked(chunks: Iterator[bytes]) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        return {member.name.removeprefix("./"): member for member in archive}


def test_files_go_in_and_out_while_it_runs_and_after(provider: ProcessProvider) -> None:
    provider.create(script("mkdir d; echo x >d/f; chmod 600 d/f; echo up; sleep 300"))
    said(provider, NAME, b"up")
    provider.copy_in(NAME, "d", packed({"a/b": b"1", "c": b"2" * 1_000_000}))
    for folder in ("d", "/home/work/d", "./d"):
        found = unpacked(provider.copy_out(NAME, folder))
        assert {"d/f", "d/a/b", "d/c"} <= found.keys()
        assert found["d/f"].mode & 0o777 == 0o600 and found["d/c"].mode & 0o777 == 0o640
        assert found["d/c"].uid == (os.geteuid() or (UID if provider.host.sandbox else 0))
    assert {"f", "c"} <= unpacked(provider.copy_out(NAME, "d/.")).keys()
    provider.stop(NAME, grace=0)
    assert "d/c" in unpacked(provider.copy_out(NAME, "d"))
    provider.copy_in(NAME, "", packed({"late": b"3"}))
    assert "late" in unpacked(provider.copy_out(NAME, "late"))


def test_copies_see_what_the_kernel_sees(make: Callable[..., ProcessProvider]) -> None:
    provider = make("sandbox")
    provider.create(script("echo secret >/tmp/own; ln -s /root out; echo up; sleep 300"))
    said(provider, NAME, b"up")
    assert "own" in unpacked(provider.copy_out(NAME, "/tmp/own"))
    for state in ("running", "ended"):
        with pytest.raises(CopyRefused):
            list(provider.copy_out(NAME, "out/.bashrc"))
        with pytest.raises(CopyRefused):
            provider.copy_in(NAME, "/usr", packed({"bai-was-here": b""}))
        assert not Path("/usr/bai-was-here").exists(), state
        provider.stop(NAME, grace=0)


def copying(provider: ProcessProvider) -> list[int]:
    """The programs that pack files of this provider's kernels."""
    return [pid for pid, words in having(str(provider.root.path)).items() if words[0] == "tar"]


def test_who_stops_reading_ends_the_copy(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    provider.create(script("head -c 50000000 /dev/zero >big; echo up; sleep 300"))
    said(provider, NAME, b"up")
    stream = provider.copy_out(NAME, "big")
    assert next(stream)
    assert copying(provider)
    stream.close()  # type: ignore[attr-defined]
    assert not copying(provider)


# ports


def test_a_port_of_the_machine_is_the_kernels(provider: ProcessProvider) -> None:
    port = free_port()  # Nobody else's when the server has gone.
    with socket.create_server(("127.0.0.1", port)) as server:
        provider.create(spec())
        stream = provider.dial(NAME, port)
        accepted = server.accept()[0]
        accepted.sendall(b"hello")
        assert stream.recv(10) == b"hello"
        accepted.close()
        stream.close()
    with pytest.raises(PortRefused, match="refused"):
        provider.dial(NAME, port)
    provider.stop(NAME, grace=0)
    with pytest.raises(NotRunning):
        provider.dial(NAME, port)


# use


def test_use_is_measured(provider: ProcessProvider) -> None:
    work = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); i=0; while :; do i=$((i+1)); done"
    provider.create(script(work, memory=256 << 20))
    first = until(lambda: measured(provider, 20_000_000), "it holds its memory")
    used = first.cpu_seconds or 0.0
    until(lambda: (now := measured(provider)) and (now.cpu_seconds or 0) > used + 0.1, "it uses its CPU")
    assert first.memory_limit == 256 << 20 and first.pids and (first.memory or 0) < 256 << 20
    assert first.gpus == {} and first.network_in is None
    provider.stop(NAME, grace=0)
    assert list(provider.usage()) == []


def measured(provider: ProcessProvider, memory: int = 0) -> Usage | None:
    found = list(provider.usage())
    return found[0] if found and (found[0].memory or 0) >= memory else None


# events


# logs


def test_output_since_a_moment(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    provider.create(script("echo old; while ! [ -e go ]; do sleep 0.05; done; echo new; sleep 300"))
    said(provider, NAME, b"old")
    later = datetime.now(UTC) + timedelta(seconds=logfile.TIME_GRAIN)
    until(lambda: datetime.now(UTC) > later + timedelta(seconds=0.1), "a second has passed")
    provider.copy_in(NAME, "", packed({"go": b""}))
    said(provider, NAME, b"new")
    assert b"".join(provider.logs_since(NAME, later)) == b"new\n"
    assert b"".join(provider.logs_since(NAME, datetime.fromtimestamp(0, UTC))) == b"old\nnew\n"
    assert b"".join(provider.logs_since(NAME, datetime.now(UTC) + timedelta(hours=1))) == b""


def test_times_are_kept_for_every_part_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    writer = logfile.LogWriter(str(tmp_path), 4096, 3)
    for number in range(200):
        now[0] += 1
        writer.write(f"{number:060}\n".encode())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3 * 4096
    for since in (1150, 1180, 1200):
        text = b"".join(logfile.output_since(str(tmp_path), lambda: False, since + 0.5, follow=False))
        assert [int(line) for line in text.split()] == list(range(since - 1001, 200))
