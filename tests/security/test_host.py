"""The machine that bai runs on goes wrong: its clock, its disk, the store's file, what sessions write."""

from __future__ import annotations

import io
import math
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bai.cli.sessions import interleaved_output
from providers.process.supervision import logfile
from reconciler.observe.clock_skew import clock_doubts
from reconciler.store.database.column_types import Timestamp
from reconciler.store.database.tables import metadata
from reconciler.store.maintenance.quarantine import quarantine_files, unusable_reason
from reconciler.store.store import Store
from reconciler.values.records import Balance
from schemas.problems.errors.store import StoreUnavailable
from tests.bai.conftest import Repo, Said, new_repo, tidy
from tests.harness.clean_forks import FORKS
from tests.providers.process.test_full_disk import Disk, mounted
from tests.reconciler.lab import Lab, session

YEAR = 365.25 * 86_400
NOW = 1_790_000_000.0
"""In 2026, where what reads a calendar is tested."""
LOOKS = (
    ("plan",), ("plan", "--offline"), ("get", "sessions"), ("get", "nodes"), ("describe", "a"), ("top",),
    ("events",), ("history",), ("audit",), ("explain", "a"), ("capacity",), ("state", "list"),
)  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = new_repo(tmp_path)
    yield made
    tidy(made)


def _set_times(store: Path, at: float, *, only: str = "") -> None:
    """What a clock that says `at` writes, everywhere where a store has a time."""
    with closing(sqlite3.connect(store)) as connection, connection:
        for table in metadata.tables.values():
            if table.name == "audit" or (only and table.name != only):
                continue
            for column in table.columns:
                if isinstance(column.type, Timestamp):
                    connection.execute(
                        f'UPDATE OR REPLACE "{table.name}" SET "{column.name}" = ?'
                        f' WHERE "{column.name}" IS NOT NULL',
                        (at,),
                    )


def _late(store: Path) -> list[str]:
    """Tables of which rows have times to come."""
    found = []
    with closing(sqlite3.connect(store)) as connection:
        for table in metadata.tables.values():
            for column in table.columns if table.name not in ("audit", "events", "journal", "leases") else ():
                if isinstance(column.type, Timestamp):
                    query = f'SELECT count(*) FROM "{table.name}" WHERE "{column.name}" > ?'
                    if connection.execute(query, (time.time() + 60,)).fetchone()[0]:
                        found.append(f"{table.name}.{column.name}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("jump", [20 * YEAR, 200 * YEAR, -time.time()], ids=["2046", "2226", "1970"])
def test_a_session_that_is_replaced_at_a_wrong_time_spoils_nothing(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    right = time.time
    repo.session("a", "sleep", "1000")
    repo.ok("apply", "--yes")
    monkeypatch.setattr(time, "time", lambda: right() + jump)
    repo.session("a", "sleep", "2000")
    said = repo.ok("apply", "--yes")
    repo.ok("plan")
    monkeypatch.undo()
    for words in LOOKS:
        repo.ok(*words)
    repo.session("a", "sleep", "3000")
    assert repo.process("apply", "--yes").code == 0
    said = repo.process("state", "rebuild")
    assert said.code == 0, said.err
    assert _late(repo.root / ".bai" / "store.db") == []
    said = repo.process("plan")
    assert said.code == 0 and "ahead of this machine's clock" not in said.out


@pytest.mark.slow
@pytest.mark.parametrize("at", [NOW + 20 * YEAR, 1e18, math.inf, 0.0, -1e18])
def test_a_store_full_of_wrong_times_is_read_and_mended(repo: Repo, at: float) -> None:
    repo.session("a", "sleep", "1000")
    repo.ok("apply", "--yes")
    repo.session("a", "sleep", "2000")
    repo.ok("apply", "--yes")
    store = repo.root / ".bai" / "store.db"
    _set_times(store, at)
    for words in LOOKS:
        repo.ok(*words)
    said = repo.ok("plan").out
    assert ("ahead of this machine's clock" in " ".join(said.split())) == (at > NOW)
    assert ("bai state rebuild" in " ".join(said.split())) == (at > NOW)
    repo.ok("state", "rebuild")
    assert _late(store) == []
    repo.session("a", "sleep", "3000")
    assert "ahead of this machine's clock" not in " ".join(repo.ok("apply", "--yes").out.split())


@pytest.mark.slow
def test_a_clock_before_this_program_was_made_is_said(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.session("a", "sleep", "1000")
    repo.ok("apply", "--yes")
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    said = " ".join(repo.ok("plan").out.split())
    assert "this machine's clock says 1970-01-01 01:23 UTC" in said
    before = (repo.root / ".bai" / "store.db").read_bytes()
    repo.ok("state", "rebuild")
    monkeypatch.undo()
    assert before and "1970" not in repo.ok("plan").out
    with closing(sqlite3.connect(repo.root / ".bai" / "store.db")) as connection:
        (started,) = connection.execute("SELECT started_at FROM resources WHERE phase = 'RUNNING'").fetchone()
    assert started > 1e9, "a rebuild by a wrong clock has overwritten what was right"


MOMENTS = st.sampled_from([-1e300, -1.0, 0.0, 1.0, NOW, NOW + 20 * YEAR, 2.5e11, 1e300, math.inf])
CLOCKS = st.sampled_from([0.0, 1.0, NOW - YEAR, NOW, NOW + 20 * YEAR, 2.5e11])


TABLES = st.sampled_from(["", *metadata.tables])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(at=MOMENTS, clocks=st.lists(CLOCKS, min_size=1, max_size=4), of=TABLES)
def test_any_time_in_a_store_is_survived_by_any_clock(
    tmp_path_factory: pytest.TempPathFactory, at: float, clocks: list[float], of: str
) -> None:
    lab = Lab(tmp_path_factory.mktemp("life"))
    with closing(lab.store):
        lab.world.clock._now = NOW
        lab.write({"a": session("a", "timeout: 1h"), "b": session("b")})
        lab.converge()
        lab.write({"b": session("b", "env: {A: b}")})
        lab.apply()
        lab.store.close()
        _set_times(lab.state, at, only=of)
        lab.store = type(lab.store).open(lab.state)
        for clock in clocks:
            lab.world.clock._now = clock
            plan = lab.plan()
            assert plan.complete
            clock_doubts(lab.actual(), clock)
            lab.store.unlock("here")
            assert lab.apply(plan).ok


@given(value=st.floats(0, 1e12), at=MOMENTS, now=CLOCKS, half_life=st.floats(1e-3, 1e9))
def test_an_account_never_grows_by_waiting(value: float, at: float, now: float, half_life: float) -> None:
    assert 0 <= Balance(value, at, half_life).decayed(now) <= value


# What sessions write


class Counted(bytes):
    """A block of a log, which knows how much was copied by putting it together with others."""

    copied = 0

    def __add__(self, other: bytes) -> bytes:
        type(self).copied += len(self) + len(other)
        return Counted(bytes(self) + other)

    __radd__ = __add__


class Reading(io.FileIO):
    """Counts what is read of a file."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = Counted(super().read(-1 if size is None else size) or b"")
        type(self).count += len(found)
        return found


def _work(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, bytes]:
    """Bytes read, bytes copied, and the last lines."""
    Reading.count = Counted.copied = 0
    with monkeypatch.context() as patch:
        patch.setattr(logfile, "open", Reading, raising=False)
        found = b"".join(logfile.output(str(folder), lambda: False, follow=False, tail=count))
    return Reading.count, Counted.copied, found


@pytest.mark.parametrize("count", [1, 20, 100])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_tail_of_a_log_without_line_ends_costs_no_more_than_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, end: bytes
) -> None:
    work = {}
    for size in (13 << 20, 26 << 20):
        (tmp_path / "log").write_bytes(b"x" * size + end)
        read, copied, found = _work(tmp_path, count, monkeypatch)
        work[size] = read + copied
        assert found.endswith(b"x" + end)
        most = count * logfile.LONGEST
        assert len(found) <= min(most, size + 1) + len(logfile.CUT) and read <= most + (1 << 16)
        assert found.startswith(logfile.CUT) == (size + len(end) > most)
    assert work[26 << 20] <= 2.1 * work[13 << 20]


def test_the_tail_is_the_same_wherever_lines_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "CHUNK", 7)
    for text in (b"", b"\n", b"a", b"a\n", b"\n\n\n", b"a\r\nb\rc\n", b"abcdefg\nhijklmn\nopqrstu\n" * 5):
        for cut in range(len(text) + 1):
            (tmp_path / "log.1").write_bytes(text[:cut])
            (tmp_path / "log").write_bytes(text[cut:])
            lines = [line + b"\n" for line in text.split(b"\n")]
            lines = lines[:-1] if lines[-1] == b"\n" else [*lines[:-1], lines[-1][:-1]]
            for count in range(5):
                wanted = b"".join(lines[len(lines) - count :] if count < len(lines) else lines)
                assert b"".join(logfile.last_lines(str(tmp_path), count)) == wanted, (text, cut, count)


@pytest.mark.parametrize("size", [1, 1 << 16, (1 << 16) + 1, 5 << 20])
def test_outputs_side_by_side_hold_no_endless_line(size: int) -> None:
    Counted.copied = 0
    chunks = [Counted(b"x" * 4096)] * (size // 4096) + [Counted(b"x" * (size % 4096))]
    found = list(interleaved_output.split_lines([*chunks, b"\nlast"]))
    assert sum(map(len, found)) == size + 4 and found[-1] == b"last"
    assert max(map(len, found)) <= interleaved_output.LONGEST and Counted.copied <= 2 * size


# The store's file


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def _without_a_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE samples")


def _of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE people (name)")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def _overwritten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.unlink()
        make(path)

    return do


def _with_a_folder_for_its_log(path: Path) -> None:
    Path(f"{path}-wal").mkdir()


SPOILT: dict[str, Callable[[Path], object]] = {
    "random bytes": lambda path: path.write_bytes(os.urandom(100_000)),
    "text": lambda path: path.write_text("no database at all, " * 1000),
    "half": _half,
    "a header alone": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "overwritten": _overwritten,
    "a newer revision": _newer,
    "without a table": _without_a_table,
    "another program's": _of_another_program,
    "a directory": _instead(Path.mkdir),
    "a FIFO": _instead(os.mkfifo),
    "a folder for its log": _with_a_folder_for_its_log,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPOILT)
def test_a_rebuild_works_whatever_has_become_of_the_store(repo: Repo, kind: str) -> None:
    repo.session("a", "sleep", "1000")
    repo.ok("apply", "--yes")
    store = repo.root / ".bai" / "store.db"
    for side in ("-wal", "-shm"):
        Path(f"{store}{side}").unlink(missing_ok=True)
    SPOILT[kind](store)
    before = store.read_bytes() if store.is_file() else b""
    said = repo.process("plan")
    assert said.code == 1 and "Traceback" not in said.err and str(store) in said.err
    said = repo.process("state", "rebuild")
    assert said.code == 0, said.err
    kept = list(store.parent.glob("store.db.set-aside-*[0-9]"))
    assert len(kept) == 1
    assert str(kept[0]) in said.out and "Session/demo/a" in said.out
    # SQLite notes in the first page how it was opened last.
    assert not before or kept[0].read_bytes()[4096:] == before[4096:]
    assert "Session" not in repo.ok("plan").out


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="files of others need root")
def test_a_store_of_somebody_else_is_set_aside(tmp_path: Path) -> None:
    """As an ordinary user, whose store root has made."""
    store = tmp_path / "store.db"
    Store.open(store).close()
    os.chmod(tmp_path, 0o777)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder != Path("/") and not folder.stat().st_mode & 0o001:
            os.chmod(folder, folder.stat().st_mode | 0o001)
    said = []
    for mode in (0o600, 0o444):
        os.chmod(store, mode)
        child = FORKS.Process(target=_set_aside_as_nobody, args=(store,))
        child.start()
        child.join()
        said.append(child.exitcode)
        Store.open(store).close()
    assert said == [7, 7] and len(list(tmp_path.glob("store.db.set-aside-*"))) >= 2


def _set_aside_as_nobody(store: Path) -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    sys.exit(7 if unusable_reason(store) and quarantine_files(store).exists() else 1)


def test_a_store_that_is_only_busy_is_not_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.store.database.sqlite.BUSY_MS", 10)
    store = tmp_path / "store.db"
    Store.open(store).close()
    with closing(sqlite3.connect(store)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable):
            unusable_reason(store)
    assert unusable_reason(store) == ""


@pytest.mark.slow
def test_a_rebuild_that_cannot_see_everything_leaves_the_file_where_it_is(repo: Repo) -> None:
    repo.session("a", "sleep", "1000")
    repo.ok("apply", "--yes")
    store = repo.root / ".bai" / "store.db"
    good = store.read_bytes()
    store.write_bytes(b"garbage" * 1000)
    machine = Path(repo.env["BAI_PROCESS_ROOT"]) / "kernels"
    machine.rename(machine.with_name("elsewhere"))
    machine.write_text("")
    try:
        assert repo("state", "rebuild").code == 1
        assert store.read_bytes().startswith(b"garbage")
    finally:
        machine.unlink()
        machine.with_name("elsewhere").rename(machine)
        store.write_bytes(good)


# A full disk


@pytest.fixture
def disk() -> Iterator[Disk]:
    with mounted() as found:
        yield found


def _fill(disk: Disk, left: int) -> None:
    """All but so many KiB."""
    disk.fill()
    os.truncate(disk.ballast, disk.ballast.stat().st_size - left * 1024)


def _says_it_is_full(said: Said, disk: Disk) -> bool:
    text = " ".join((said.out + said.err).split())
    found = re.search(re.escape(f"the file system at {disk.folder} has ") + r"\d+ of 2048 KiB free", text)
    return found is not None and "nothing is left half-written" in text and "Traceback" not in text


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 8, 64])
def test_a_store_that_has_no_room_says_where_and_loses_nothing(repo: Repo, disk: Disk, left: int) -> None:
    repo.env["BAI_STATE"] = str(disk.folder / "state" / "store.db")
    _fill(disk, left)
    repo.session("a", "sleep", "1000")
    first = repo.process("apply", "--yes")
    assert first.code == 1 and _says_it_is_full(first, disk), first.out + first.err
    disk.free()
    repo.ok("apply", "--yes")
    (before,) = Path(repo.env["BAI_PROCESS_ROOT"]).glob("kernels/*/intent.json")
    kernel = before.read_bytes()
    _fill(disk, 0)
    repo.session("a", "sleep", "2000")
    said = repo.process("apply", "--yes")
    assert said.code == 1 and _says_it_is_full(said, disk), said.out + said.err
    assert before.read_bytes() == kernel, "something was replaced that could not be written down"
    disk.free()
    assert unusable_reason(Path(repo.env["BAI_STATE"])) == ""
    repo.ok("apply", "--yes")
    assert "Session" not in repo.ok("plan").out
    repo.ok("destroy", "--yes")  # while there is the disk that has the store


@pytest.mark.slow
def test_a_plan_that_has_no_room_is_not_left_in_half(repo: Repo, disk: Disk) -> None:
    target = disk.folder / "plan.json"
    repo.session("a", "sleep", "1000")
    repo.ok("plan", "--out", str(target))
    whole = target.read_bytes()
    repo.session("b", "sleep", "1000", extra=f"  env: {{LONG: {'x' * 30_000}}}\n")
    _fill(disk, 8)
    said = repo.process("plan", "--out", str(target))
    assert said.code == 1 and _says_it_is_full(said, disk), said.out + said.err
    assert str(target) in said.err and target.read_bytes() == whole
    assert {path.name for path in disk.folder.iterdir()} == {"plan.json", "ballast"}
    disk.free()
    repo.ok("plan", "--out", str(target))
    assert target.read_bytes() != whole


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 4, 12])
def test_a_session_that_has_no_room_to_start_leaves_nothing(repo: Repo, disk: Disk, left: int) -> None:
    machine = disk.folder / "machine"
    machine.mkdir()
    repo.env["BAI_PROCESS_ROOT"] = str(machine)
    repo.session("a", "sleep", "1000", extra=f"  env: {{LONG: {'x' * 20_000}}}\n")
    _fill(disk, left)
    said = repo.process("apply", "--yes")
    assert said.code == 1 and _says_it_is_full(said, disk), said.out + said.err
    assert [path for path in machine.rglob("*") if path.is_file()] == []
    assert not any((machine / "staging").iterdir()) and not any((machine / "kernels").iterdir())
    disk.free()
    repo.ok("apply", "--yes")
    assert "Session" not in repo.ok("plan").out
    tidy(repo)
