"""What servers on one store tell each other of the requests that they hand to replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "server_reports",
        sa.Column("cluster", _TEXT, primary_key=True),
        sa.Column("server", _TEXT, primary_key=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("report", _TEXT, nullable=False),
    )
