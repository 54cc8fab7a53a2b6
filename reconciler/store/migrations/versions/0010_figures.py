"""Figures of passes over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "figures",
        sa.Column("cluster", _TEXT, primary_key=True),
        sa.Column("length", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, primary_key=True),
        sa.Column("resource_group", _TEXT, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("sums", _TEXT, nullable=False),
    )
