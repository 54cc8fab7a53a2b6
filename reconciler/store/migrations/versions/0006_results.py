"""How the batch sessions ended that events tell of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("events", sa.Column("result", _TEXT, nullable=False, server_default=""))
