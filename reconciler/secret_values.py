"""Secrets: references in documents, values only here, only while applying."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reconciler.session_keys import PREFIX, Agree, seed
from schemas.errors import SecretMissing

MAX_BYTES = 64 * 1024


def resolve(reference: str) -> str:
    """The value behind `env:NAME` or `file:/absolute/path` (a trailing line break is dropped).

    Raises SecretMissing, whose message names the reference and never a value.
    """
    kind, _, rest = reference.partition(":")
    if kind == "env":
        return _from_environment(reference, rest)
    if kind == "file":
        return _from_file(reference, rest)
    raise SecretMissing(reference=reference, why="it is neither env:NAME nor file:/path")


def resolver(key: Path, agree: Agree | None = None) -> Callable[[str], str]:
    """Like `resolve`, and for the keys of sessions what follows from the random key in the file `key`."""

    def known(reference: str) -> str:
        return seed(key, reference, agree) if reference.startswith(PREFIX) else resolve(reference)

    return known


def _from_environment(reference: str, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise SecretMissing(reference=reference, why="the variable is not set where bai runs")
    return value


def _from_file(reference: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SecretMissing(reference=reference, why=f"the file is larger than {MAX_BYTES} bytes")
        text = data.decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "the file is not UTF-8 text"
        raise SecretMissing(reference=reference, why=why) from None
    if "\0" in text:
        raise SecretMissing(reference=reference, why="the file holds a NUL byte, which no variable can")
    return text.removesuffix("\n").removesuffix("\r")
