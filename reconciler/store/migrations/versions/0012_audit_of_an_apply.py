"""What one apply did is found without reading the whole audit."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0010"


def upgrade() -> None:
    op.create_index("audit_apply", "audit", ["cluster", "apply", "verb"])
