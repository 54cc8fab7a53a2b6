"""The tables, in types that SQLite and PostgreSQL share. JSON is text in one normal form, times are seconds
since the epoch."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table

from reconciler.store.database.column_types import ROWID, EscapedText, Timestamp

metadata = MetaData()

resources = Table(
    "resources",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("resource", EscapedText, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("digest", EscapedText, nullable=False),
    Column("document", EscapedText, nullable=False),
    Column("phase", EscapedText, nullable=False),
    Column("placement", EscapedText),
    Column("kernels", EscapedText, nullable=False),
    Column("protected", Boolean, nullable=False),
    Column("commit", EscapedText, nullable=False),
    Column("enqueued_at", Timestamp),
    Column("started_at", Timestamp),
    Column("finished_at", Timestamp),
    Column("result", EscapedText, nullable=False),
    Column("exit_codes", EscapedText, nullable=False),
    Column("skips", Integer, nullable=False),
    Column("reason", EscapedText, nullable=False),
    Column("ghosts", EscapedText, nullable=False, server_default="[]"),
    Column("account", EscapedText),
    Column("version", EscapedText, nullable=False, server_default=""),
    Column("service", EscapedText),
    Column("app_ports", EscapedText),
)
"""`version` is another one with each write of a row; empty where that was before there were versions.
`service` is JSON, and only of services that something is remembered of; so is `app_ports`, of an AppProxy."""

contacts = Table(
    "contacts",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("node", EscapedText, primary_key=True),
    Column("reached", Timestamp),
    Column("lost", Timestamp),
    Column("why", EscapedText, nullable=False),
)
"""Nodes as they were last found. `reached`: since when, or when before they were lost; nothing while this
store has never seen them. `lost`: since when they are missed; nothing while they are reached."""

samples = Table(
    "samples",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("kernel", EscapedText, primary_key=True),
    Column("at", Timestamp, primary_key=True),
    Column("cpu", Float),
    Column("network", BigInteger),
    Column("gpu", Float),
    Column("total", EscapedText, nullable=False, server_default="{}"),
)
"""`total` is JSON: all that the kernel is known to have used by then."""

allocations = Table(
    "allocations",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", EscapedText, nullable=False),
    Column("session", EscapedText, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("user", EscapedText, nullable=False),
    Column("began", Timestamp, nullable=False),
    Column("started", Timestamp, nullable=False),
    Column("ended", Timestamp, nullable=False),
    Column("cpu", BigInteger, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("devices", EscapedText, nullable=False),
    Column("used", EscapedText, nullable=False),
    Index("allocations_cluster", "cluster", "seq"),
    Index("allocations_session", "cluster", "session", "began"),
    Index("allocations_ended", "cluster", "ended"),
)
"""What sessions held from when to when; `devices` and `used` are JSON."""

accounts = Table(
    "accounts",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("user", EscapedText, primary_key=True),
    Column("value", Float, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("half_life", Float, nullable=False),
)
"""Dominant share × seconds of sessions that ended, decayed to `at`."""

standings = Table(
    "standings",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("node", EscapedText, primary_key=True),
    Column("state", EscapedText, nullable=False),
    Column("profile", EscapedText, nullable=False),
    Column("fingerprint", EscapedText, nullable=False),
    Column("why", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("condition", EscapedText, nullable=False),
    Column("seen", Timestamp),
)
"""How far the provisioning of nodes has come, and their condition as last seen."""

leases = Table(
    "leases",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", EscapedText, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("ttl", Float, nullable=False),
    Column("acquired", Timestamp, nullable=False),
    Column("expires", Timestamp, nullable=False),
    Column("process", EscapedText, nullable=False),
    Column("revision", BigInteger, nullable=False, server_default="0"),
)
"""`revision` rises with every write that others may want to hear of."""

journal = Table(
    "journal",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", EscapedText, nullable=False),
    Column("apply", EscapedText, nullable=False),
    Column("action", EscapedText, nullable=False),
    Column("step", EscapedText, nullable=False),
    Column("kind", EscapedText, nullable=False),
    Column("kernel", EscapedText, nullable=False),
    Column("state", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("error", EscapedText, nullable=False),
    Column("token", BigInteger, nullable=False),
    Index("journal_step", "cluster", "apply", "action", "step"),
)

open_intents = Table(
    "open_intents",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("apply", EscapedText, primary_key=True),
    Column("action", EscapedText, primary_key=True),
    Column("step", EscapedText, primary_key=True),
    Column("kind", EscapedText, nullable=False),
    Column("kernel", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)
"""The journal's intents that have no outcome yet: kept beside it so that finding them does not cost the whole
history."""

events = Table(
    "events",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", EscapedText, nullable=False),
    Column("resource", EscapedText, nullable=False),
    Column("before", EscapedText, nullable=False),
    Column("after", EscapedText, nullable=False),
    Column("cause", EscapedText, nullable=False),
    Column("actor", EscapedText, nullable=False),
    Column("commit", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("result", EscapedText, nullable=False, server_default=""),
    Index("events_resource", "cluster", "resource", "seq"),
    Index("events_cluster", "cluster", "seq"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", ROWID, primary_key=True, autoincrement=True),
    Column("cluster", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("actor", EscapedText, nullable=False),
    Column("verb", EscapedText, nullable=False),
    Column("resource", EscapedText, nullable=False),
    Column("cause", EscapedText, nullable=False),
    Column("commit", EscapedText, nullable=False),
    Column("plan", EscapedText, nullable=False),
    Column("apply", EscapedText, nullable=False),
    Column("before", EscapedText, nullable=False),
    Column("after", EscapedText, nullable=False),
    Column("changes", EscapedText, nullable=False),
    Index("audit_cluster", "cluster", "seq"),
    Index("audit_resource", "cluster", "resource", "seq"),
    Index("audit_apply", "cluster", "apply", "verb"),
)
"""Triggers refuse to change or delete rows. `changes` is JSON."""

figures = Table(
    "figures",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("length", Integer, primary_key=True, autoincrement=False),
    Column("at", Timestamp, primary_key=True),
    Column("resource_group", EscapedText, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("sums", EscapedText, nullable=False),
)
"""What `count` passes told in `length` seconds from `at`, by resource group; empty for the cluster. `sums` is
JSON."""

hardware = Table(
    "hardware",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("node", EscapedText, primary_key=True),
    Column("document", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)

enforcement = Table(
    "enforcement",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("node", EscapedText, primary_key=True),
    Column("means", EscapedText, primary_key=True),
    Column("version", EscapedText, nullable=False),
    Column("outcome", EscapedText, nullable=False),
    Column("why", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)
"""Whether parts of GPUs were held to their limits on nodes, when that was tried last."""

rollout_orders = Table(
    "rollout_orders",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("service", EscapedText, primary_key=True),
    Column("generation", EscapedText, nullable=False),
    Column("against", EscapedText, nullable=False),
    Column("actor", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)
"""What people want in place of services' documents."""

server_reports = Table(
    "server_reports",
    metadata,
    Column("cluster", EscapedText, primary_key=True),
    Column("server", EscapedText, primary_key=True),
    Column("beat", BigInteger, nullable=False),
    Column("report", EscapedText, nullable=False),
)
"""What servers tell each other of services' requests, as JSON. `beat` rises with each word: whose stays the
same says nothing any more."""

images = Table(
    "images",
    metadata,
    Column("reference", EscapedText, primary_key=True),
    Column("document", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("digest", EscapedText, primary_key=True),
    Column("cluster", EscapedText, nullable=False),
    Column("document", EscapedText, nullable=False),
    Column("at", Timestamp, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", EscapedText, primary_key=True),
    Column("value", EscapedText, nullable=False),
)
