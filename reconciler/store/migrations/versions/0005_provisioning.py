"""How far the provisioning of nodes has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "standings",
        sa.Column("cluster", _TEXT, primary_key=True),
        sa.Column("node", _TEXT, primary_key=True),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("profile", _TEXT, nullable=False),
        sa.Column("fingerprint", _TEXT, nullable=False),
        sa.Column("why", _TEXT, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("condition", _TEXT, nullable=False),
        sa.Column("seen", sa.Float),
    )
