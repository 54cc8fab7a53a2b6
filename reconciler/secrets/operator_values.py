"""Secrets that the owner names on the command line: `env:NAME`, `file:/path`. Documents cannot; theirs are in
`reader.py`."""

from __future__ import annotations

import os

from schemas.files.regular_files import read_regular_file
from schemas.problems.errors.plan import SecretMissing

MAX_BYTES = 64 * 1024


def resolve_reference(reference: str) -> str:
    """The value behind `env:NAME` or `file:/absolute/path` (a trailing line break is dropped).

    Raises SecretMissing, whose message names the reference and never a value.
    """
    kind, _, rest = reference.partition(":")
    if kind == "env":
        return _from_environment(reference, rest)
    if kind == "file":
        return _from_file(reference, rest)
    raise SecretMissing(reference=reference, why="it is neither env:NAME nor file:/path")


def _from_environment(reference: str, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise SecretMissing(reference=reference, why="the variable is not set where bai runs")
    return value


def _from_file(reference: str, path: str) -> str:
    try:
        text = read_regular_file(path, MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "the file is not UTF-8 text"
        raise SecretMissing(reference=reference, why=why) from None
    if "\0" in text:
        raise SecretMissing(reference=reference, why="the file holds a NUL byte, which no variable can")
    return text.removesuffix("\n").removesuffix("\r")
