"""Output is kept in bounded parts, and can be followed across them without a gap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from providers.process.provider import ProcessProvider
from providers.process.supervision import logfile
from providers.process.supervision.records import LogRotation
from tests.providers.process.kernels import ended, output, said, script, spec
from tests.waiting import until


def test_the_log_is_bounded_and_keeps_the_newest(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups", log=LogRotation(8192, 3))
    provider.create(script("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"))
    ended(provider, spec().id)
    folder = provider.root.folder(spec().id) / "logs"
    sizes = [path.stat().st_size for path in folder.iterdir() if path.name.startswith("log")]
    assert len(sizes) == 3 and sum(sizes) <= 3 * 65536 + 8192
    kept = output(provider, spec().id).splitlines()
    numbers = [int(line.split()[1]) for line in kept[1:]]
    assert numbers == list(range(numbers[0], 20000))


def test_following_sees_every_line_across_rotations(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups", log=LogRotation(4096, 50))
    text = "read go < gate; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"
    provider.create(script(f"mkfifo gate; echo ready; {text}"))
    said(provider, spec().id, b"ready")
    chunks: list[bytes] = []
    follower = threading.Thread(target=lambda: chunks.extend(provider.logs(spec().id, follow=True)))
    follower.start()
    until(lambda: b"ready" in b"".join(chunks))
    (provider.root.folder(spec().id) / "scratch" / "gate").open("w").write("go\n")
    until(lambda: not follower.is_alive(), "it is over")
    lines = b"".join(chunks).splitlines()
    assert lines == [b"ready", *(f"line {number}".encode() for number in range(3000))]


def test_following_starts_with_the_tail_asked_for(make: Callable[..., ProcessProvider]) -> None:
    provider = make("groups")
    provider.create(script("mkfifo gate; echo a; echo b; read go < gate; echo c"))
    said(provider, spec().id, b"b\n")
    chunks: list[bytes] = []
    stream = provider.logs(spec().id, follow=True, tail=1)
    follower = threading.Thread(target=lambda: chunks.extend(stream))
    follower.start()
    until(lambda: b"b" in b"".join(chunks))
    (provider.root.folder(spec().id) / "scratch" / "gate").open("w").write("go\n")
    until(lambda: not follower.is_alive(), "it is over")
    assert b"".join(chunks) == b"b\nc\n"


@pytest.mark.parametrize(("count", "expected"), [(0, b""), (1, b"z"), (2, b"y\nz"), (9, b"v\nw\nx\ny\nz")])
def test_the_tail_reaches_over_parts(tmp_path: Path, count: int, expected: bytes) -> None:
    (tmp_path / "log.1").write_bytes(b"v\nw\nx")
    (tmp_path / "log").write_bytes(b"\ny\nz")
    assert b"".join(logfile.last_lines(str(tmp_path), count)) == expected


def test_what_is_written_after_a_rotation_begins_is_not_lost(tmp_path: Path) -> None:
    writer = logfile.LogWriter(str(tmp_path), 4096, 4)
    writer.write(b"a" * 4000)
    with logfile.Follower(str(tmp_path)) as follower:
        assert follower.read() == b"a" * 4000
        writer.write(b"b" * 90)
        for letter in (b"c", b"d"):
            writer.write(letter * 4000)
        rest = b""
        while data := follower.read():
            rest += data
    assert rest == b"b" * 90 + b"c" * 4000 + b"d" * 4000


@pytest.mark.parametrize("more", [90, 5000], ids=["same part", "rotated"])
def test_what_is_written_after_the_tail_was_read_is_followed(tmp_path: Path, more: int) -> None:
    writer = logfile.LogWriter(str(tmp_path), 4096, 4)
    writer.write(b"a\nb\n")
    alive = [True]
    stream = logfile.output(str(tmp_path), lambda: alive[0], follow=True, tail=1)
    assert next(stream) == b"b\n"
    writer.write(b"c" * more)
    writer.write(b"d" * more)
    alive.clear()
    alive.append(False)
    assert b"".join(stream) == b"c" * more + b"d" * more


@pytest.mark.parametrize("tail", [None, 0, 1])
@pytest.mark.parametrize("moment", range(30))
def test_a_log_that_is_rotated_while_it_is_looked_at_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: int | None, moment: int
) -> None:
    """As seen at any moment: the newest part is away from its place for a while."""
    (tmp_path / "log.1").write_bytes(b"a\n")
    (tmp_path / "log").write_bytes(b"b\n")
    steps: list[Callable[[], object]] = [
        lambda: (tmp_path / "log.1").rename(tmp_path / "log.2"),
        lambda: (tmp_path / "log").rename(tmp_path / "log.1"),
        lambda: (tmp_path / "log").write_bytes(b"c\n"),
    ]
    looks = 0

    def look(of: Callable[[str], object], where: str) -> object:
        nonlocal looks
        looks += 1
        found = of(where)
        if looks > moment and steps:
            steps.pop(0)()
        return found

    for name in ("parts", "_inode"):
        monkeypatch.setattr(logfile, name, partial(look, getattr(logfile, name)))
    follow = logfile.follow_growth(str(tmp_path), lambda: bool(steps), lambda: None, tail=tail)
    found = b"".join(follow)
    assert not steps
    if tail is None:
        assert found == b"a\nb\nc\n"
    else:  # Of what was the end when it began.
        assert b"a\nb\nc\n".endswith(found) and len(found) >= 2 * tail
