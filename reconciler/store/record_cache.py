"""Records that were read before: what a look costs is in proportion to what was written since the last one.

Each write of a row gives it a version that no other write of any row has, so that a row with a known version
is what it was, whoever wrote, and whatever became of the store meanwhile. The engine joins all versions to
one text, so that where nothing was written one row is fetched, and one text compared.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reconciler.store import rows
from reconciler.store.database.questions import Ask, Row
from reconciler.values.records import Recorded

_MOST_ONE_BY_ONE = 500
"""Changed rows that are asked for by name; where more have changed, all are read."""
_OWN = "cluster = :cluster"
_STAMP = (
    "SELECT count(*) AS amount, {join}(resource || :line || version, :line) AS versions"
    f" FROM resources WHERE {_OWN}"
)


def new_version() -> str:
    """For all rows of one write."""
    return secrets.token_hex(8)


class _Known(NamedTuple):
    """All of it is never changed, only replaced."""

    stamp: tuple[int, str] | None
    """How many rows there are, and their versions in one text; None where only the rows were read."""
    rows: Mapping[str, tuple[str, Recorded]]
    """Identity → the version of its row and what that says, in order."""
    records: Mapping[str, Recorded]


class RecordCache:
    """What was read of one cluster. Threads may share it."""

    def __init__(self) -> None:
        self._known: _Known | None = None

    def read(self, ask: Ask, cluster: str, *, on_server: bool) -> dict[str, Recorded]:
        """All records, in the order of identities; one that was not written since is the same object.

        `ask`: nobody writes between its questions; `on_server`: it asks PostgreSQL, not SQLite.
        """
        known = self._known
        if known is None:
            known = _known(None, _read_all(ask, cluster))
        else:
            join = "string_agg" if on_server else "group_concat"
            (found,) = ask(_STAMP.format(join=join), cluster=cluster, line="\n")
            stamp = (int(found["amount"]), found["versions"] or "")
            if stamp != known.stamp:
                rows_now = _read_changed(ask, cluster, known.rows, _versions(ask, cluster, stamp))
                same = rows_now is known.rows
                known = known._replace(stamp=stamp) if same else _known(stamp, rows_now)
        self._known = known
        return dict(known.records)


def _known(stamp: tuple[int, str] | None, found: Mapping[str, tuple[str, Recorded]]) -> _Known:
    found = dict(sorted(found.items()))
    return _Known(stamp, found, {name: record for name, (_, record) in found.items()})


def _versions(ask: Ask, cluster: str, stamp: tuple[int, str]) -> Mapping[str, str]:
    """Identity → version. An identity that a stranger's label has made may hold a line break: then the rows
    are asked for."""
    amount, text = stamp
    parts = text.split("\n") if text else []
    if len(parts) == 2 * amount:
        return dict(zip(parts[::2], parts[1::2], strict=True))
    found = ask(f"SELECT resource, version FROM resources WHERE {_OWN}", cluster=cluster)
    return {row["resource"]: row["version"] for row in found}


def _read_changed(
    ask: Ask, cluster: str, known: Mapping[str, tuple[str, Recorded]], current: Mapping[str, str]
) -> Mapping[str, tuple[str, Recorded]]:
    """The known ones themselves, where none was written."""
    kept = {name: one for name, one in known.items() if current.get(name) == one[0]}
    changed = [name for name in current if name not in kept]
    if len(changed) > _MOST_ONE_BY_ONE:
        return _read_all(ask, cluster)
    if not changed and len(kept) == len(known):
        return known
    return kept | _parse(_named_rows(ask, cluster, changed))


def _read_all(ask: Ask, cluster: str) -> dict[str, tuple[str, Recorded]]:
    return _parse(ask(f"SELECT * FROM resources WHERE {_OWN}", cluster=cluster))


def _named_rows(ask: Ask, cluster: str, names: Sequence[str]) -> Sequence[Row]:
    if not names:
        return ()
    asked = {f"name{number}": name for number, name in enumerate(names)}
    places = ", ".join(f":{each}" for each in asked)
    return ask(f"SELECT * FROM resources WHERE {_OWN} AND resource IN ({places})", cluster=cluster, **asked)


def _parse(found: Sequence[Row]) -> dict[str, tuple[str, Recorded]]:
    return {row["resource"]: (row["version"], rows.record_from_row(row)) for row in found}
