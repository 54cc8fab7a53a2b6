"""Column types that mean the same in SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import BigInteger, Dialect, Float, Integer, Text
from sqlalchemy.types import TypeDecorator

from reconciler.store.database.questions import escaped_text
from reconciler.values.times import clamped

ROWID = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database gives, ascending."""
BYTEWISE_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that compares and sorts by its bytes, whatever language a server was set up for."""


class EscapedText(TypeDecorator[str]):
    """Text from anywhere, in what both engines can hold."""

    impl = BYTEWISE_TEXT
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escaped_text(value)


class Timestamp(TypeDecorator[float]):
    """Seconds since the epoch, as a calendar has them: what a wrong clock has written harms nobody later."""

    impl = Float
    cache_ok = True

    def process_result_value(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else clamped(value)
