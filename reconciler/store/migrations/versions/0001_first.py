"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _resources()
    _leases()
    _journal()
    _events()
    _others()


def _resources() -> None:
    op.create_table(
        "resources",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("resource", sa.String(1024), primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("placement", sa.Text),
        sa.Column("kernels", sa.Text, nullable=False),
        sa.Column("protected", sa.Boolean, nullable=False),
        sa.Column("commit", sa.String(64), nullable=False),
        sa.Column("enqueued_at", sa.Float),
        sa.Column("started_at", sa.Float),
        sa.Column("finished_at", sa.Float),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("exit_codes", sa.Text, nullable=False),
        sa.Column("skips", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("ttl", sa.Float, nullable=False),
        sa.Column("acquired", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
    )


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("seq", _ROWID, primary_key=True, autoincrement=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("apply", sa.String(64), nullable=False),
        sa.Column("action", sa.String(1024), nullable=False),
        sa.Column("step", sa.String(1024), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("kernel", sa.String(253), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
    )
    op.create_index("journal_step", "journal", ["cluster", "apply", "action", "step"])
    op.create_table(
        "open_intents",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("apply", sa.String(64), primary_key=True),
        sa.Column("action", sa.String(1024), primary_key=True),
        sa.Column("step", sa.String(1024), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("kernel", sa.String(253), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", _ROWID, primary_key=True, autoincrement=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("resource", sa.String(1024), nullable=False),
        sa.Column("before", sa.String(16), nullable=False),
        sa.Column("after", sa.String(16), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("commit", sa.String(64), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("events_resource", "events", ["cluster", "resource", "seq"])


def _others() -> None:
    op.create_table(
        "hardware",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("node", sa.String(253), primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
