"""Whether parts of GPUs were held to their limits on nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "enforcement",
        *(sa.Column(name, _TEXT, primary_key=True) for name in ("cluster", "node", "means")),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("version", "outcome", "why")),
        sa.Column("at", sa.Float, nullable=False),
    )
