"""What only stores on a server have: passwords, schemas, one clock for all, connections that break."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from reconciler.store import leases, writes
from reconciler.store.database.address import StoreAddress
from reconciler.store.database.engine import open_engine, run_transaction, write_transaction
from reconciler.store.maintenance import transfer
from reconciler.store.store import Store
from reconciler.values.records import Audit, Event, JournalEntry, PutRecord
from schemas.problems.errors.store import LeaseHeld, StoreError, StoreUnavailable
from tests.lab.postgres import PASSWORD, Server
from tests.lab.spaces import PATIENCE
from tests.reconciler.store.samples import CLUSTER, NAME, record
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


def opened(url: str) -> bool:
    with Store.open(StoreAddress.parse(url)) as store:
        return store.recorded(CLUSTER) == {}


def test_passwords_come_from_where_the_url_says(
    postgres: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    (tmp_path / "password").write_text(PASSWORD + "\n")
    plain = postgres.url_with_password(url)
    assert opened(postgres.url_with_password(url, PASSWORD))
    assert opened(f"{plain}?passwordFrom=env:DB_PASSWORD")
    assert opened(f"{plain}?passwordFrom=file:{tmp_path}/password")
    with pytest.raises(StoreError, match="no password supplied") as missing:
        opened(plain)
    assert "passwordFrom" in missing.value.hint and not missing.value.retryable
    with pytest.raises(StoreError, match="authentication failed") as wrong:
        opened(postgres.url_with_password(url, "wr0ng"))
    assert "wr0ng" not in str(wrong.value) and not wrong.value.retryable
    with pytest.raises(StoreError, match="env:NOWHERE"):
        opened(f"{plain}?passwordFrom=env:NOWHERE")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert opened(plain)


def test_service_and_password_files_work(
    postgres: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{postgres.port}:*:bai:{PASSWORD}\n")
    passfile.chmod(0o600)
    services = tmp_path / "services"
    name = url.partition("?")[0].rpartition("/")[2]
    services.write_text(f"[team]\nhost=127.0.0.1\nport={postgres.port}\nuser=bai\ndbname={name}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert opened("postgresql:///?service=team")


def test_what_is_not_there_is_said_in_words(postgres: Server, url: str) -> None:
    with pytest.raises(StoreError, match="does not exist") as missing:
        opened(postgres.url("nothing"))
    assert not missing.value.retryable
    with pytest.raises(StoreUnavailable) as nobody:
        opened("postgresql://bai@127.0.0.1:1/bai?connect_timeout=5")
    assert nobody.value.retryable
    with pytest.raises(StoreError, match="nonsense") as odd:
        opened(f"postgresql://bai:hunter2@/{url.rpartition('/')[2]}&nonsense=1")
    assert "hunter2" not in str(odd.value)


def test_several_stores_in_one_database_by_schema(postgres: Server) -> None:
    url = postgres.database(empty=True)
    joined = f"{url}&schema=team%20%22a%22", f"{url}&schema=b"
    stores = [Store.open(StoreAddress.parse(each)) for each in joined]
    for store in stores:
        store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(record(reason=str(store.address)))])
    for store in stores:
        assert store.recorded(CLUSTER)[NAME].reason == str(store.address)
        store.close()
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", url) == [(0,)]


def test_a_database_in_another_encoding_is_refused(postgres: Server) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreError, match="not UTF8"):
        opened(postgres.url("latin"))


GRANTS = """
GRANT USAGE ON SCHEMA public TO ada;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ada;
REVOKE UPDATE, DELETE ON audit FROM ada;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ada;
"""


def test_who_applies_need_not_be_able_to_touch_the_audit(postgres: Server, url: str) -> None:
    assert GRANTS.strip() in (ROOT / "docs" / "state.md").read_text()
    postgres.execute("CREATE ROLE ada LOGIN")
    postgres.execute(GRANTS, url)
    address = StoreAddress.parse(url.replace("//bai@", "//ada@"))
    with Store.open(address) as store:
        lease = store.acquire(CLUSTER, "me", 60, 0)
        entry = JournalEntry("a", NAME, "create:k", "create", "k", "intent", 1.0)
        store.write(
            lease, [PutRecord(record()), Audit("create", NAME, 1.0), Event(NAME, "", "NEW", "", 1.0), entry]
        )
        store.prune(store.renew(lease, 1))
        store.set_meta("a", "1")
        store.save_plan(CLUSTER, "d", "t", 1.0)
        store.release(lease)
        assert len(store.audit(CLUSTER)) == 1
    engine = open_engine(address)
    for statement in ("DELETE FROM audit", "DROP TABLE audit", "ALTER TABLE audit DISABLE TRIGGER ALL"):
        with pytest.raises(StoreError, match=r"permission denied|must be owner"):
            run_transaction(
                engine, address, lambda connection, words=statement: connection.execute(text(words))
            )  # type: ignore[misc]
    engine.dispose()


def test_leases_go_by_the_server_s_clock(url: str) -> None:
    address = StoreAddress.parse(url)
    with Store.open(address) as slow, Store.open(address) as fast:
        lease = slow.acquire(CLUSTER, "slow", 60, now=1000)
        assert (lease.acquired, lease.expires) == (1000, 1060)
        with pytest.raises(LeaseHeld, match="slow"):
            fast.acquire(CLUSTER, "fast", 60, now=4e9)
        assert slow.renew(lease, now=1050).expires == 1110
        seen = fast.lease(CLUSTER)
        assert seen is not None and seen.expires > 1.7e9
        short = slow.acquire("other", "slow", 0, now=4e9)
        assert fast.acquire("other", "fast", 60, now=0).token == short.token + 1


def test_connections_that_broke_while_nobody_used_them_are_made_again(postgres: Server, url: str) -> None:
    with Store.open(StoreAddress.parse(url)) as store:
        lease = store.acquire(CLUSTER, "me", 60, 0)
        for number in range(3):
            assert postgres.kill_connections(url) > 0
            store.write(lease, [PutRecord(record(generation=number))])
        assert store.recorded(CLUSTER)[NAME].generation == 2


def test_a_transaction_whose_connection_breaks_is_not_half_done(postgres: Server, url: str) -> None:
    address = StoreAddress.parse(url)
    with Store.open(address) as store:
        engine = open_engine(address)

        def do(connection: Connection) -> None:
            connection.execute(text("INSERT INTO meta (key, value) VALUES ('a', '1')"))
            postgres.kill_connections(url)
            connection.execute(text("INSERT INTO meta (key, value) VALUES ('b', '2')"))

        with pytest.raises(StoreUnavailable):
            run_transaction(engine, address, do)
        engine.dispose()
        assert (store.meta("a"), store.meta("b")) == (None, None)


def test_a_server_that_stops_is_missed_and_comes_back(postgres: Server, url: str) -> None:
    with Store.open(StoreAddress.parse(url)) as store:
        lease = store.acquire(CLUSTER, "me", 60, 0)
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailable) as missed:
                    store.write(lease, [PutRecord(record())])
                assert missed.value.retryable
        finally:
            postgres.start()
        store.write(lease, [PutRecord(record())])
        assert store.recorded(CLUSTER).keys() == {NAME}


def test_two_that_block_each_other_both_come_to_their_end(url: str) -> None:
    address = StoreAddress.parse(url)
    engine, met = open_engine(address), threading.Barrier(2, timeout=PATIENCE)
    with Store.open(address) as store:
        for key in "ab":
            store.set_meta(key, "0")
    tries: list[str] = []

    def add(order: str) -> None:
        def do(connection: Connection) -> None:
            tries.append(order)
            raised = "UPDATE meta SET value = (value::int + 1)::text WHERE key = :key"
            connection.execute(text(raised), {"key": order[0]})
            if tries.count(order) == 1:
                met.wait()
            connection.execute(text(raised), {"key": order[1]})

        run_transaction(engine, address, do)

    threads = [threading.Thread(target=add, args=(order,)) for order in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    assert len(tries) == 3
    with Store.open(address) as store:
        assert (store.meta("a"), store.meta("b")) == ("2", "2")


def test_who_replaces_a_store_waits_for_a_writer_and_neither_blocks_the_other(
    postgres: Server, url: str
) -> None:
    """The writer has begun, and has more to write, when all tables are to be locked."""
    address, failed = StoreAddress.parse(url), []
    engine = open_engine(address)
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'ExclusiveLock' AND locktype = 'relation'"

    def lock() -> None:
        try:
            with write_transaction(engine, address) as connection:
                transfer.lock_tables(connection)
        except StoreError as error:
            failed.append(error)

    locker = threading.Thread(target=lock)
    with Store.open(address, server_time=False) as store:
        lease = store.acquire(CLUSTER, "me", 60, 0)
    with write_transaction(engine, address) as connection:
        leases.fence_write(connection, lease, tell=True)
        locker.start()
        until(lambda: postgres.execute(waiting), "the other one waits")
        writes.write_changes(connection, lease, [PutRecord(record()), Event(NAME, "", "NEW", "", 1.0)])
    locker.join()
    engine.dispose()
    assert failed == []
