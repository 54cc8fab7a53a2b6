"""The tables, in types that SQLite and PostgreSQL share. JSON is text in one normal form, times are seconds
since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table

from reconciler.store.database.column_types import ROWID, Moment, Words

REVISION = "0005"
"""The newest migration; the program and a store agree when the store's `alembic_version` says the same."""

metadata = MetaData()

resources = Table(
    "resources",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("resource", Words, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("digest", Words, nullable=False),
    Column("document", Words, nullable=False),
    Column("phase", Words, nullable=False),
    Column("placement", Words),
    Column("kernels", Words, nullable=False),
    Column("protected", Boolean, nullable=False),
    Column("commit", Words, nullable=False),
    Column("enqueued_at", Moment),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("result", Words, nullable=False),
    Column("exit_codes", Words, nullable=False),
    Column("skips", Integer, nullable=False),
    Column("reason", Words, nullable=False),
    Column("ghosts", Words, nullable=False, server_default="[]"),
    Column("account", Words),
)

contacts = Table(
    "contacts",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("node", Words, primary_key=True),
    Column("reached", Moment),
    Column("lost", Moment),
    Column("why", Words, nullable=False),
)
"""Nodes as they were last found. `reached`: since when, or when before they were lost; nothing while this
store has never seen them. `lost`: since when they are missed; nothing while they are reached."""

samples = Table(
    "samples",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("kernel", Words, primary_key=True),
    Column("at", Moment, primary_key=True),
    Column("cpu", Float),
    Column("network", BigInteger),
    Column("gpu", Float),
)

accounts = Table(
    "accounts",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("user", Words, primary_key=True),
    Column("value", Float, nullable=False),
    Column("at", Moment, nullable=False),
    Column("half_life", Float, nullable=False),
)
"""Dominant share × seconds of sessions that ended, decayed to `at`."""

standings = Table(
    "standings",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("node", Words, primary_key=True),
    Column("state", Words, nullable=False),
    Column("profile", Words, nullable=False),
    Column("fingerprint", Words, nullable=False),
    Column("why", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("condition", Words, nullable=False),
    Column("seen", Moment),
)
"""How far the provisioning of nodes has come, and their condition as last seen."""

leases = Table(
    "leases",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Words, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("ttl", Float, nullable=False),
    Column("acquired", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("process", Words, nullable=False),
    Column("revision", BigInteger, nullable=False, server_default="0"),
)
"""`revision` rises with every write that others may want to hear of."""

journal = Table(
    "journal",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", Words, nullable=False),
    Column("apply", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("step", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("kernel", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("error", Words, nullable=False),
    Column("token", BigInteger, nullable=False),
    Index("journal_step", "cluster", "apply", "action", "step"),
)

open_intents = Table(
    "open_intents",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("apply", Words, primary_key=True),
    Column("action", Words, primary_key=True),
    Column("step", Words, primary_key=True),
    Column("kind", Words, nullable=False),
    Column("kernel", Words, nullable=False),
    Column("at", Moment, nullable=False),
)
"""The journal's intents that have no outcome yet: kept beside it so that finding them does not cost the whole
history."""

events = Table(
    "events",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", Words, nullable=False),
    Column("resource", Words, nullable=False),
    Column("before", Words, nullable=False),
    Column("after", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("actor", Words, nullable=False),
    Column("commit", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Index("events_resource", "cluster", "resource", "seq"),
    Index("events_cluster", "cluster", "seq"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("actor", Words, nullable=False),
    Column("verb", Words, nullable=False),
    Column("resource", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("commit", Words, nullable=False),
    Column("plan", Words, nullable=False),
    Column("apply", Words, nullable=False),
    Column("before", Words, nullable=False),
    Column("after", Words, nullable=False),
    Column("changes", Words, nullable=False),
    Index("audit_cluster", "cluster", "seq"),
    Index("audit_resource", "cluster", "resource", "seq"),
)
"""Triggers refuse to change or delete rows. `changes` is JSON."""

hardware = Table(
    "hardware",
    metadata,
    Column("cluster", Words, primary_key=True),
    Column("node", Words, primary_key=True),
    Column("document", Words, nullable=False),
    Column("at", Moment, nullable=False),
)

images = Table(
    "images",
    metadata,
    Column("reference", Words, primary_key=True),
    Column("document", Words, nullable=False),
    Column("at", Moment, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("digest", Words, primary_key=True),
    Column("cluster", Words, nullable=False),
    Column("document", Words, nullable=False),
    Column("at", Moment, nullable=False),
)

meta = Table("meta", metadata, Column("key", Words, primary_key=True), Column("value", Words, nullable=False))
