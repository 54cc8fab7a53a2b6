"""A store that is read: what `Store` and a file opened for reading alone have in common."""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack
from urllib.parse import quote

from reconciler.store import reads
from reconciler.store.database.asked_questions import AskedQuestion
from reconciler.store.database.questions import BUSY_MS, Ask, Row, plain_parameters, plain_rows
from reconciler.store.database.revision import MOVED_KEY, REVISION
from reconciler.store.figures.reads import read_figures
from reconciler.store.record_cache import RecordCache
from reconciler.store.services.reads import read_rollout_orders, read_server_reports
from reconciler.values.records import ClusterRecords, Recorded
from schemas.files.regular_files import require_regular_path

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reconciler.store.database.address import StoreAddress
    from reconciler.values.figures.recorded import FigureRow
    from reconciler.values.records import (
        Audit,
        Balance,
        Contact,
        EnforcementRecord,
        Event,
        NodeObservation,
        ProvisionRecord,
        Sample,
    )
    from reconciler.values.services.server_report import SavedReport
    from reconciler.values.services.state import RolloutOrder
    from schemas.images.facts import ImageFacts


class StoreReader(ABC):
    """Every method raises StoreError and nothing else. Thread-safe where its subclass is."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._records: dict[str, RecordCache] = defaultdict(RecordCache)

    @abstractmethod
    def _asking(self, *, one_moment: bool = False) -> AbstractContextManager[Ask]:
        """For questions; `one_moment`: nobody writes between them."""

    @abstractmethod
    def close(self) -> None: ...

    def recorded(self, cluster: str, kind: str = "") -> dict[str, Recorded]:
        """Everything recorded of one cluster, or of one kind in it, by identity, in their order."""
        with self._asking(one_moment=not kind) as ask:
            if kind:
                return reads.read_recorded(ask, cluster, kind)
            return self._records[cluster].read(ask, cluster, on_server=self.address.on_server)

    def recorded_identities(self, cluster: str) -> tuple[str, ...]:
        """Whose records `recorded` has, without reading these."""
        with self._asking() as ask:
            return reads.read_identities(ask, cluster)

    def cluster_records(self, cluster: str) -> ClusterRecords:
        """All that decisions about a cluster rest on, in one look: nobody writes in between."""
        with self._asking(one_moment=True) as ask:
            return ClusterRecords(
                self._records[cluster].read(ask, cluster, on_server=self.address.on_server),
                reads.read_contacts(ask, cluster),
                reads.read_samples(ask, cluster),
                reads.read_accounts(ask, cluster),
                reads.read_provision_records(ask, cluster),
                read_rollout_orders(ask, cluster),
            )

    def contacts(self, cluster: str) -> dict[str, Contact]:
        """Which nodes were ever reached or missed, by name."""
        with self._asking() as ask:
            return reads.read_contacts(ask, cluster)

    def samples(self, cluster: str, of: Sequence[str] | None = None) -> dict[str, tuple[Sample, ...]]:
        """What kernels (or those) had used at some moments, by kernel, oldest first."""
        with self._asking() as ask:
            return reads.read_samples(ask, cluster, of)

    def accounts(self, cluster: str) -> dict[str, Balance]:
        """What users' ended sessions used, by user."""
        with self._asking() as ask:
            return reads.read_accounts(ask, cluster)

    def provision_records(self, cluster: str) -> dict[str, ProvisionRecord]:
        """How far the provisioning of nodes has come, by node name."""
        with self._asking() as ask:
            return reads.read_provision_records(ask, cluster)

    def rollout_orders(self, cluster: str) -> dict[str, RolloutOrder]:
        """What people want in place of services' documents, by the services' identities; also what counts no
        more, because its service's document has changed."""
        with self._asking() as ask:
            return read_rollout_orders(ask, cluster)

    def server_reports(self, cluster: str) -> dict[str, SavedReport]:
        """What servers say of services' requests, by server; also of those that are gone."""
        with self._asking() as ask:
            return read_server_reports(ask, cluster)

    def hardware(self, cluster: str) -> dict[str, NodeObservation]:
        """What each node was last seen to be, by node name."""
        with self._asking() as ask:
            return reads.read_hardware(ask, cluster)

    def enforcement(self, cluster: str) -> dict[tuple[str, str], EnforcementRecord]:
        """What parts of GPUs were held to, by node and means."""
        with self._asking() as ask:
            return reads.read_enforcement(ask, cluster)

    def images(self) -> dict[str, tuple[ImageFacts, float]]:
        """By full reference: what is known of an image, and since when."""
        with self._asking() as ask:
            return reads.read_images(ask)

    def events(
        self, cluster: str, *, resource: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[Event, ...]:
        """Events with `seq` above `after`, oldest first; with `limit`, only the newest so many."""
        with self._asking() as ask:
            return reads.read_events(ask, cluster, resource, after, limit)

    def audit(self, cluster: str, **asked: Unpack[reads.AuditQuery]) -> tuple[Audit, ...]:
        """Who changed what, oldest first."""
        with self._asking() as ask:
            return reads.read_entries(ask, cluster, **asked)

    def cluster_entries(self, cluster: str, limit: int) -> tuple[Audit, ...]:
        """Of the audit, the newest so many that are of no resource, newest first: applies and orders."""
        with self._asking() as ask:
            return reads.read_cluster_entries(ask, cluster, limit)

    def count_actions(self, cluster: str, applies: Sequence[str]) -> dict[str, dict[str, int]]:
        """By apply, of how many resources the audit says each verb."""
        with self._asking() as ask:
            return reads.count_actions(ask, cluster, applies)

    def actions(self, cluster: str, apply: str, first: int, count: int) -> tuple[Audit, ...]:
        """Of an apply's actions so many, from `first` (from 0) on, and which of these failed; and where
        policies did not count."""
        with self._asking(one_moment=True) as ask:
            return reads.read_actions(ask, cluster, apply, first, count)

    def audited_resources(self, cluster: str) -> set[str]:
        """Identities of all resources that the audit has entries of."""
        with self._asking() as ask:
            return reads.audited_resources(ask, cluster)

    def figures(
        self, cluster: str, length: int, since: float, until: float, group: str | None = None
    ) -> tuple[FigureRow, ...]:
        """What passes told in a time, by rows of `length` seconds, oldest first; `group`: of it and of the
        cluster alone."""
        with self._asking() as ask:
            return read_figures(ask, cluster, length, since, until, group)

    def meta(self, key: str) -> str | None:
        return self.read_metas([key]).get(key)

    def read_metas(self, keys: Sequence[str]) -> dict[str, str]:
        """What is known under each of these keys, of those that are known."""
        with self._asking() as ask:
            return reads.read_metas(ask, keys)


class FileReader(StoreReader):
    """A store's file, with nothing loaded that only writing needs. For one thread at a time."""

    def __init__(self, address: StoreAddress, connection: sqlite3.Connection) -> None:
        super().__init__(address)
        self._connection = connection
        self.asked: list[AskedQuestion] | None = None
        """Where it is a list, each question is added to it."""

    def answers_as_before(self, asked: Sequence[AskedQuestion]) -> bool:
        """Whether each of these is answered now as it was then, at one moment. Raises StoreError, also for
        what is no question to a store."""
        with self._asking(one_moment=True):
            self._connection.execute("PRAGMA query_only = 1")
            try:
                return all(self._question(each.sql, each.parameters) == each for each in asked)
            finally:
                self._connection.execute("PRAGMA query_only = 0")

    def _question(self, sql: str, parameters: Mapping[str, object]) -> AskedQuestion:
        cursor = self._connection.execute(sql, parameters)
        return AskedQuestion.of(sql, parameters, _columns(cursor), cursor.fetchall())

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _asking(self, *, one_moment: bool = False) -> Iterator[Ask]:
        try:
            self._connection.execute("BEGIN" if one_moment else "SELECT 1")
            try:
                yield self._ask
            finally:
                if one_moment:
                    self._connection.execute("COMMIT")
        except (sqlite3.Error, OSError, ValueError):
            from reconciler.store.database.database_errors import translate_errors

            with translate_errors(self.address):
                raise

    def _ask(self, sql: str, **parameters: object) -> Sequence[Row]:
        plain = plain_parameters(parameters)
        cursor = self._connection.execute(sql, plain)
        names, rows = _columns(cursor), cursor.fetchall()
        if self.asked is not None:
            self.asked.append(AskedQuestion.of(sql, plain, names, rows))
        return plain_rows(names, rows)


def _columns(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description or ()]


def open_file_reader(address: StoreAddress) -> FileReader | None:
    """The store's file, where it is one that this program wrote last and that was not moved; None for
    everything else, which is for `Store.open` to mend or to refuse."""
    if address.path is None:
        return None
    try:
        require_regular_path(address.path)
        where = f"file:{quote(str(address.path.absolute()))}?mode=rw"
        connection = sqlite3.connect(
            where, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error):
        return None
    try:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        moved = connection.execute("SELECT 1 FROM meta WHERE key = ?", [MOVED_KEY]).fetchone()
    except sqlite3.Error:
        found = moved = None
    if found != (REVISION,) or moved is not None:
        connection.close()
        return None
    return FileReader(address, connection)
