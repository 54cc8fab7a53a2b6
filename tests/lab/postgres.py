"""A real PostgreSQL server per test process, and a database of its own for every test.

    def test_something(postgres: Server) -> None:
        url = postgres.database()

It listens on a unix socket in its own folder and on a free port of the loopback (there with passwords), runs
as somebody who is not root, and ends with the process that started it, whatever happens to that.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.ports import free_port
from tests.lab.cache import LabUnavailable, command, tool
from tests.lab.spaces import PATIENCE, pid_namespace, started

USER = "bai"
PASSWORD = "lab/secret@word"
_PREFIX = "bai-postgres-"
_MEMORY = Path("/dev/shm")
_DEBIAN = Path("/usr/lib/postgresql")
_QUICK = {
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "shared_buffers": "16MB", "max_connections": "60", "autovacuum": "off", "jit": "off",
    "log_min_messages": "warning",
}  # fmt: skip
"""Nobody needs these tables after a power cut."""
_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Server:
    """One server. `stop`, `start` and `crash` do to it what happens to servers."""

    def __init__(self, settings: Mapping[str, str] = _QUICK) -> None:
        """`settings` beside those that it cannot do without."""
        _sweep()
        self._settings = {"listen_addresses": "127.0.0.1", **settings}
        self._postgres, initdb = _program("postgres"), _program("initdb")
        place = _place() if settings else None
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{pid_namespace()}-{os.getpid()}-", dir=place))
        self._as = _somebody()
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._template = ""
        if self._as:
            os.chown(self.folder, int(self._as[0]), int(self._as[1]))
        self.folder.chmod(0o755)
        (self.folder / "password").write_text(PASSWORD)
        (self.folder / "password").chmod(0o644)
        try:
            data = str(self.folder / "data")
            options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
            argv = [initdb, "-D", data, *options, "--no-instructions", f"--pwfile={self.folder / 'password'}"]
            command(self._words(argv), cwd=self.folder)
            (self.folder / "data" / "pg_hba.conf").write_text(_HBA)
            self.port = free_port()
            self.start()
        except BaseException:
            self.close()
            raise

    # Life

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = self._settings | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        argv = [self._postgres, "-D", str(self.folder / "data")]
        argv += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words(argv), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = (self.folder / "log").read_text().strip().splitlines()[-1:]
                raise LabUnavailable(f"postgres does not start: {' '.join(last)}")
            time.sleep(0.02)

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: every connection is broken, then it ends in order. SIGQUIT: as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def crash(self) -> None:
        self.stop(how=signal.SIGQUIT)

    def close(self) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.stop(how=signal.SIGQUIT)
        if self._process is not None:
            self._process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Databases

    def database(self, *, empty: bool = False) -> str:
        """The URL of a new database, on the socket; a store that was never used, unless `empty`."""
        name = f"d{next(self._names)}"
        template = "" if empty else f' TEMPLATE "{self._migrated()}"'
        self.execute(f'CREATE DATABASE "{name}"{template}')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Take a database away, whoever still uses it."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def url(self, name: str) -> str:
        return f"postgresql://{USER}@/{name}?host={quote(str(self.folder))}&port={self.port}"

    def url_with_password(self, url: str, password: str = "") -> str:
        """The same database over TCP, where the server asks for a password; none in the URL unless given."""
        name = url.partition("?")[0].rpartition("/")[2]
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/{name}"

    def execute(self, statement: str, url: str = "") -> list[tuple[object, ...]]:
        """Run it in a connection of its own, by default in the database `postgres`."""
        import psycopg

        with psycopg.connect(url or self.url("postgres"), autocommit=True, connect_timeout=120) as connection:
            found = connection.execute(statement)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    def kill_connections(self, url: str, *, spare_commits: bool = False) -> int:
        """Break everybody's connection to the database, for good; gives how many there were. Who is
        committing then cannot know whether it has been done; with `spare_commits`, writers are waited for and
        kept waiting, so that nobody is."""
        import psycopg

        with psycopg.connect(url) as own:
            # As writers take them: the leases first, so that neither waits for what the other one has.
            tables = own.execute(
                "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' "
                "ORDER BY tablename <> 'leases'"
            )
            names = ", ".join(row[0] for row in tables)
            if spare_commits and names:
                own.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE".encode())
            found = own.execute(
                "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return len(found.fetchall())

    def _migrated(self) -> str:
        """A database with the tables of a store, to be copied: that costs less than making them."""
        if not self._template:
            from reconciler.store.database.address import StoreAddress
            from reconciler.store.store import Store

            self.execute('CREATE DATABASE "template_bai"')
            Store.open(StoreAddress.parse(self.url("template_bai"))).close()
            self._template = "template_bai"
        return self._template

    # Parts

    def _words(self, argv: list[str]) -> list[str]:
        start = [tool("setpriv"), "--pdeathsig", "KILL"]
        if self._as:
            start += ["--reuid", self._as[0], "--regid", self._as[1], "--clear-groups"]
        return [*start, *argv]

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """One server, gone afterwards. Raises LabUnavailable."""
    made = Server()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def postgres_lab() -> Iterator[Server | str]:
    """The server of this test process, or why there is none."""
    if os.environ.get("BAI_LAB") == "off":
        yield "switched off by BAI_LAB=off"
        return
    try:
        made = Server()
    except LabUnavailable as error:
        yield str(error)
        return
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def postgres(postgres_lab: Server | str) -> Server:
    """A running server; the test is skipped by name where there can be none."""
    if isinstance(postgres_lab, str):
        pytest.skip(f"PostgreSQL lab: {postgres_lab}")
    return postgres_lab


def _program(name: str) -> str:
    """Debian keeps them out of the PATH."""
    for again in (False, True):
        if found := sorted(_DEBIAN.glob(f"*/bin/{name}")):
            return str(found[-1])
        try:
            return tool(name)
        except LabUnavailable:
            if again:
                raise
    raise AssertionError


def _somebody() -> tuple[str, str] | None:
    """Uid and gid that the server runs as, for it refuses root; None where nobody is root anyway."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return str(entry.pw_uid), str(entry.pw_gid)
    raise LabUnavailable("there is no user postgres or nobody to run the server as")


def _sweep() -> None:
    """Remove the folders of test processes that were killed; their servers ended with them."""
    ours = f"{_PREFIX}{pid_namespace()}-"
    for place in {Path(tempfile.gettempdir()), _MEMORY}:
        for folder in place.glob(f"{ours}*"):
            pid = folder.name.removeprefix(ours).partition("-")[0]
            if pid.isdecimal() and not started(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def _place() -> Path | None:
    """In memory where there is room: databases are made and dropped by the dozen."""
    try:
        there = shutil.disk_usage(_MEMORY)
    except OSError:
        return None
    return _MEMORY if there.free > 1 << 30 and os.access(_MEMORY, os.W_OK) else None
