"""What is known of images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("reference", sa.String(1024), primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
