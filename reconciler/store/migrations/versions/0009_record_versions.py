"""Which write a record's row is of, so that one that was read before is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("resources", sa.Column("version", _TEXT, nullable=False, server_default=""))
