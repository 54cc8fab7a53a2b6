"""What is remembered of services, and what people want in place of their documents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("resources", sa.Column("service", _TEXT))
    op.create_table(
        "rollout_orders",
        sa.Column("cluster", _TEXT, primary_key=True),
        sa.Column("service", _TEXT, primary_key=True),
        sa.Column("generation", _TEXT, nullable=False),
        sa.Column("against", _TEXT, nullable=False),
        sa.Column("actor", _TEXT, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
