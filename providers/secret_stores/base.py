"""The seam: what reads entries of one store."""

from __future__ import annotations

from typing import Protocol

MAX_BYTES = 64 * 1024


class SecretUnreadable(Exception):
    """A value cannot be had; its text says why, and never holds a value."""


class Backend(Protocol):
    """May be asked by several threads, each entry once for each apply. An entry point of the group
    `bai.secret_stores` is a callable that takes the store's `options` and gives one."""

    def read(self, entry: str) -> str:
        """The value of an entry that the store's declaration lists. Raises SecretUnreadable; the text of any
        other error is not shown, as it may hold what it is about."""
        ...


def decode_secret(data: bytes) -> str:
    """Raises SecretUnreadable for what is no text that a variable could hold."""
    if len(data) > MAX_BYTES:
        raise SecretUnreadable(f"it is larger than {MAX_BYTES} bytes")
    try:
        value = data.decode()
    except UnicodeDecodeError:
        raise SecretUnreadable("it is not UTF-8 text") from None
    if "\0" in value:
        raise SecretUnreadable("it holds a NUL byte, which no variable can")
    return value
