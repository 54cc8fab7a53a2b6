"""The tables, in types that SQLite and PostgreSQL share. JSON is text in one normal form, times are seconds
since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

REVISION = "0001"
"""The newest migration; the program and a store agree when the store's `alembic_version` says the same."""

metadata = MetaData()
_ROWID = BigInteger().with_variant(Integer, "sqlite")

resources = Table(
    "resources",
    metadata,
    Column("cluster", String(253), primary_key=True),
    Column("resource", String(1024), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("placement", Text),
    Column("kernels", Text, nullable=False),
    Column("protected", Boolean, nullable=False),
    Column("commit", String(64), nullable=False),
    Column("enqueued_at", Float),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("result", String(16), nullable=False),
    Column("exit_codes", Text, nullable=False),
    Column("skips", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("cluster", String(253), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("ttl", Float, nullable=False),
    Column("acquired", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("process", Text, nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("seq", _ROWID, primary_key=True, autoincrement=True),
    Column("cluster", String(253), nullable=False),
    Column("apply", String(64), nullable=False),
    Column("action", String(1024), nullable=False),
    Column("step", String(1024), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("kernel", String(253), nullable=False),
    Column("state", String(8), nullable=False),
    Column("at", Float, nullable=False),
    Column("error", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Index("journal_step", "cluster", "apply", "action", "step"),
)

open_intents = Table(
    "open_intents",
    metadata,
    Column("cluster", String(253), primary_key=True),
    Column("apply", String(64), primary_key=True),
    Column("action", String(1024), primary_key=True),
    Column("step", String(1024), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("kernel", String(253), nullable=False),
    Column("at", Float, nullable=False),
)
"""The journal's intents that have no outcome yet: kept beside it so that finding them does not cost the whole
history."""

events = Table(
    "events",
    metadata,
    Column("seq", _ROWID, primary_key=True, autoincrement=True),
    Column("cluster", String(253), nullable=False),
    Column("resource", String(1024), nullable=False),
    Column("before", String(16), nullable=False),
    Column("after", String(16), nullable=False),
    Column("cause", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("commit", String(64), nullable=False),
    Column("at", Float, nullable=False),
    Index("events_resource", "cluster", "resource", "seq"),
)

hardware = Table(
    "hardware",
    metadata,
    Column("cluster", String(253), primary_key=True),
    Column("node", String(253), primary_key=True),
    Column("document", Text, nullable=False),
    Column("at", Float, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("document", Text, nullable=False),
    Column("at", Float, nullable=False),
)

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)
