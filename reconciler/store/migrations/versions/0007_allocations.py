"""What sessions held over time, and what they used of it in all. What ended before this is not known."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "allocations",
        sa.Column("seq", _ROWID, primary_key=True, autoincrement=True),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("session", _TEXT, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("user", _TEXT, nullable=False),
        *(sa.Column(name, sa.Float, nullable=False) for name in ("began", "started", "ended")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("cpu", "memory")),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("devices", "used")),
    )
    op.create_index("allocations_cluster", "allocations", ["cluster", "seq"])
    op.create_index("allocations_session", "allocations", ["cluster", "session", "began"])
    op.create_index("allocations_ended", "allocations", ["cluster", "ended"])
    op.add_column("samples", sa.Column("total", _TEXT, nullable=False, server_default="{}"))
    _say_since_when()


def _say_since_when() -> None:
    known = sa.table("events", sa.column("cluster"))
    meta = sa.table("meta", sa.column("key"), sa.column("value"))
    connection = op.get_bind()
    clusters = connection.execute(sa.select(known.c.cluster).distinct()).scalars().all()
    for cluster in clusters:
        values = {"key": f"allocations-since/{cluster}", "value": repr(time.time())}
        connection.execute(sa.insert(meta).values(**values))
