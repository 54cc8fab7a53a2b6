"""What a store was asked and what it answered, so that another process finds out whether it would answer the
same, without making anything of the answers."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VERSION_WITHOUT_REFERENCES = 2
"""Of `marshal`: later ones write equal values differently, by who else refers to them."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One statement, with its parameters as tables hold them, and the digest of its answer."""

    sql: str
    parameters: Mapping[str, object]
    answer: str

    @classmethod
    def of(
        cls,
        sql: str,
        parameters: Mapping[str, object],
        columns: list[str],
        rows: list[tuple[Any, ...]],
    ) -> AskedQuestion:
        whole = marshal.dumps((columns, rows), _VERSION_WITHOUT_REFERENCES)
        return cls(sql, parameters, hashlib.sha256(whole).hexdigest())
