"""What the YAML of a folder's documents said, remembered between commands that only look: after one file has
changed, only that one is parsed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.sources.sealed_files import (
    code_fingerprint,
    digest_of,
    read_sealed_file,
    user_cache_folder,
    write_sealed_file,
)
from schemas.loading.document_cache import DocumentCache
from schemas.loading.known_values import KnownValues

if TYPE_CHECKING:
    from reconciler.sources.source import Source

FORMAT = "bai.document-values/1"
_CODE = ("schemas",)
"""Whose code makes values of bytes."""
_FEW = 16
"""While not more than one of so many files had to be parsed, what is remembered is not written again."""


@dataclass(frozen=True, slots=True)
class KnownDocuments:
    """Of one folder, for one command. Never raises: what cannot be used is as if it were not there."""

    path: Path
    values: KnownValues
    _code: str

    @classmethod
    def of_user(cls, source: Source) -> KnownDocuments | None:
        """From the user's own cache; None for a commit, without a home, or where the user wants none."""
        folder = user_cache_folder() if source.revision is None else None
        if folder is None:
            return None
        path = folder / f"{digest_of(os.fsencode(source.directory))[:32]}.values"
        code = code_fingerprint(_CODE)
        with contextlib.suppress(OSError, ValueError):
            found = read_sealed_file(path, FORMAT)
            if found is not None and found.get("code") == code and isinstance(found.get("files"), dict):
                return cls(path, KnownValues(found["files"]), code)
        return cls(path, KnownValues({}), code)

    def new_cache(self) -> DocumentCache:
        """For reading the documents as they are now."""
        return DocumentCache(self.values.parse)

    def remember(self) -> None:
        """What was read, for the next command; only where all of it was right."""
        if self.values.parsed * _FEW > self.values.asked:
            with contextlib.suppress(OSError, ValueError):
                content = {"code": self._code, "files": self.values.values()}
                write_sealed_file(self.path, FORMAT, content)
