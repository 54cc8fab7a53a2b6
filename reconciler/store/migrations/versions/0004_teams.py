"""What teams need: an audit that is only added to, revisions that others hear of, text without limits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_AUDIT = ("actor", "verb", "resource", "cause", "commit", "plan", "apply", "before", "after", "changes")
_REFUSED = "the audit is append-only"


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", _ROWID, primary_key=True, autoincrement=True),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in _AUDIT),
    )
    op.create_index("audit_cluster", "audit", ["cluster", "seq"])
    op.create_index("audit_resource", "audit", ["cluster", "resource", "seq"])
    op.create_index("events_cluster", "events", ["cluster", "seq"])
    op.add_column("leases", sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"))
    if op.get_bind().dialect.name == "postgresql":
        _without_limits()
        _on_server()
    else:
        for what in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
            )


def _without_limits() -> None:
    """SQLite has never kept to the lengths of the first tables, nor sorted by a language."""
    seen = sa.inspect(op.get_bind())
    for table in seen.get_table_names():
        if table == "alembic_version":
            continue
        texts = [
            f'ALTER COLUMN "{column["name"]}" TYPE TEXT COLLATE "C"'
            for column in seen.get_columns(table)
            if isinstance(column["type"], sa.String)
        ]
        op.execute(f'ALTER TABLE "{table}" {", ".join(texts)}')


def _on_server() -> None:
    op.execute(
        "CREATE FUNCTION bai_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION bai_append_only()"
    )
    op.execute(
        "CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION bai_append_only()"
    )
    op.execute(
        "CREATE FUNCTION bai_tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_notify('bai_changes', TG_TABLE_SCHEMA || ' ' || NEW.cluster); RETURN NULL; END $$"
    )
    op.execute(
        "CREATE TRIGGER leases_tell AFTER UPDATE ON leases FOR EACH ROW "
        "WHEN (OLD.revision IS DISTINCT FROM NEW.revision) EXECUTE FUNCTION bai_tell()"
    )
