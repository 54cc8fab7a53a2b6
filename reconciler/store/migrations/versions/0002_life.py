"""What the life of sessions needs: ghosts and accounts of records, contact with nodes, samples of use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("resources", sa.Column("ghosts", sa.Text, nullable=False, server_default="[]"))
    op.add_column("resources", sa.Column("account", sa.Text))
    op.create_table(
        "contacts",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("node", sa.String(253), primary_key=True),
        sa.Column("reached", sa.Float),
        sa.Column("lost", sa.Float),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_table(
        "samples",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("kernel", sa.String(253), primary_key=True),
        sa.Column("at", sa.Float, primary_key=True),
        sa.Column("cpu", sa.Float),
        sa.Column("network", sa.BigInteger),
        sa.Column("gpu", sa.Float),
    )
    op.create_table(
        "accounts",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("user", sa.String(253), primary_key=True),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("half_life", sa.Float, nullable=False),
    )
