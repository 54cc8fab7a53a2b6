"""Seeds of the key pairs by which a session's containers log in to each other.

All follow from one random key, kept in a file beside the store and readable by its owner alone. What a seed
is for (`session-key:<repository>/<cluster>/<session>#<generation>`) may stand in plans and records; the seed
itself is only ever handed to a provider. Containers that are made again later get the same pair as long as
the key is there; without it, a new one is made, and only sessions that start anew have one pair in all
containers. All who write to one store on a server must have the same key: the store remembers which.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from schemas.files.regular_files import open_regular_file, read_descriptor
from schemas.problems.errors.plan import SecretMissing

PREFIX = "session-key:"
_KEY_BYTES = 32
_FINGERPRINT_LENGTH = 16
KeyAgreement = Callable[[str], str]
"""Takes the mark of a key, gives the mark of the one that all are to use."""


def derive_seed(file: Path, reference: str, agree: KeyAgreement | None = None) -> str:
    """The seed (64 hexadecimal digits) for a reference; makes the random key when it is first needed.

    Raises SecretMissing when the key cannot be read or written, is open to others, or is not the one that
    others use.
    """
    try:
        key = _load_or_create_key(file)
    except OSError as error:
        why = f"{file}: {error.strerror or error}"
        raise SecretMissing(reference=reference, why=why) from None
    except ValueError as error:
        raise SecretMissing(reference=reference, why=f"{file} {error}") from None
    mark = hmac.digest(key, b"which key this is", "sha256").hex()[:_FINGERPRINT_LENGTH]
    if agree is not None and agree(mark) != mark:
        raise SecretMissing(
            reference=reference,
            why=f"{file} is not the key that others who use this store have",
            hint="copy theirs, or name it with keyFile=/path in the store's URL; if it is gone for good:"
            " `bai state new-key`",
        )
    return hmac.digest(key, reference.encode(), "sha256").hex()


def _load_or_create_key(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return _read_key(path)
    _create_key(path)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    descriptor = open_regular_file(path, follow=False)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            raise ValueError("may be read by others: chmod 600")
        text = read_descriptor(descriptor, path, 4 * _KEY_BYTES).decode("ascii", errors="replace")
    finally:
        os.close(descriptor)
    key = bytes.fromhex(text.strip())
    if len(key) != _KEY_BYTES:
        raise ValueError("is not a key that bai made")
    return key


def _create_key(path: Path) -> None:
    """Whole or not at all; whoever comes second finds the first one's."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
