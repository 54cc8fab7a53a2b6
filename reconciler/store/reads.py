"""Questions to a store, in SQL that SQLite and PostgreSQL share: whoever asks a file needs no more than
Python's own driver. What is written is in the modules beside, with what only writing asks."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from pydantic import ValidationError

from reconciler.store import rows
from reconciler.store.database.questions import Ask
from reconciler.values.records import (
    Audit,
    Balance,
    Contact,
    EnforcementRecord,
    Event,
    NodeObservation,
    ProvisionRecord,
    Recorded,
    Sample,
)

if TYPE_CHECKING:
    from schemas.images.facts import ImageFacts


class AuditQuery(TypedDict, total=False):
    """Which entries are asked for; all that is left out or empty counts for all. Times are seconds since the
    epoch."""

    resource: str | None
    actor: str
    """How it begins; `commit` and `plan` likewise."""
    commit: str
    plan: str
    apply: str
    """All of its name."""
    since: float | None
    until: float | None
    """Not itself part of the time asked for, as `since` is."""
    after: int
    """The `seq` of an entry that is known; `before` likewise."""
    before: int
    verb: str
    projects: Collection[str] | None
    """Of resources of these projects, and perhaps of some others."""
    limit: int | None
    """Only the newest so many."""


_MOST_NAMES = 500
"""Of one question: engines bound how many parameters it has."""
_IS_ACTION = "NOT IN ('apply', 'failed', 'override')"


def read_recorded(ask: Ask, cluster: str, kind: str, only: str = "") -> dict[str, Recorded]:
    """What is recorded of one kind (or of the one resource `only`) in a cluster, in the order of
    identities."""
    sql, first = "SELECT * FROM resources WHERE cluster = :cluster", f"{kind}/"
    if only:
        found = ask(f"{sql} AND resource = :only", cluster=cluster, only=only)
        return {row["resource"]: rows.record_from_row(row) for row in found}
    mine = f"{sql} AND substr(resource, 1, :size) = :first ORDER BY resource"
    found = ask(mine, cluster=cluster, size=len(first), first=first)
    return {row["resource"]: rows.record_from_row(row) for row in found}


def read_identities(ask: Ask, cluster: str) -> tuple[str, ...]:
    """Whose records there are in one cluster."""
    found = ask("SELECT resource FROM resources WHERE cluster = :cluster", cluster=cluster)
    return tuple(row["resource"] for row in found)


def read_contacts(ask: Ask, cluster: str) -> dict[str, Contact]:
    found = ask("SELECT * FROM contacts WHERE cluster = :cluster ORDER BY node", cluster=cluster)
    return {row["node"]: Contact(row["node"], row["reached"], row["lost"], row["why"]) for row in found}


def read_samples(ask: Ask, cluster: str, of: Sequence[str] | None = None) -> dict[str, tuple[Sample, ...]]:
    """By kernel, of all or of those, oldest first."""
    names = {f"kernel{number}": name for number, name in enumerate(of or ())}
    chosen = "" if of is None else f" AND kernel IN ({', '.join(f':{name}' for name in names)})"
    sql = f"SELECT * FROM samples WHERE cluster = :cluster{chosen} ORDER BY kernel, at"
    found: dict[str, list[Sample]] = {}
    for row in ask(sql, cluster=cluster, **names) if of is None or names else ():
        total = rows.consumption_from_json(row["total"])
        sample = Sample(row["at"], row["cpu"], row["network"], row["gpu"], total)
        found.setdefault(row["kernel"], []).append(sample)
    return {kernel: tuple(each) for kernel, each in found.items()}


def read_accounts(ask: Ask, cluster: str) -> dict[str, Balance]:
    found = ask('SELECT * FROM accounts WHERE cluster = :cluster ORDER BY "user"', cluster=cluster)
    return {row["user"]: Balance(row["value"], row["at"], row["half_life"]) for row in found}


def read_provision_records(ask: Ask, cluster: str) -> dict[str, ProvisionRecord]:
    """By node."""
    found = ask("SELECT * FROM standings WHERE cluster = :cluster ORDER BY node", cluster=cluster)
    return {row["node"]: ProvisionRecord(**{k: v for k, v in row.items() if k != "cluster"}) for row in found}


def read_hardware(ask: Ask, cluster: str) -> dict[str, NodeObservation]:
    """What each node was last seen to be, by node."""
    found = ask("SELECT * FROM hardware WHERE cluster = :cluster ORDER BY node", cluster=cluster)
    return {row["node"]: rows.node_observation_from_row(row) for row in found}


def read_enforcement(ask: Ask, cluster: str) -> dict[tuple[str, str], EnforcementRecord]:
    """What parts of GPUs were held to, by node and means."""
    found = ask("SELECT * FROM enforcement WHERE cluster = :cluster", cluster=cluster)
    records = (EnforcementRecord(**{k: v for k, v in row.items() if k != "cluster"}) for row in found)
    return {(each.node, each.means): each for each in records}


def read_images(ask: Ask) -> dict[str, tuple[ImageFacts, float]]:
    """Facts and when they were learned; what another version wrote and cannot be read is not known."""
    from schemas.images.facts import ImageFacts

    found = {}
    for row in ask("SELECT * FROM images ORDER BY reference"):
        with contextlib.suppress(ValidationError):
            found[row["reference"]] = (ImageFacts.model_validate_json(row["document"]), row["at"])
    return found


def read_events(
    ask: Ask, cluster: str, resource: str | None, after: int, limit: int | None
) -> tuple[Event, ...]:
    """Oldest first; with `limit`, only the newest so many."""
    sql = "SELECT * FROM events WHERE cluster = :cluster AND seq > :after"
    asked: dict[str, object] = {"cluster": cluster, "after": after}
    if resource is not None:
        sql, asked = f"{sql} AND resource = :resource", {**asked, "resource": resource}
    found = ask(_newest(sql, limit), **asked)
    return tuple(rows.event_from_row(row) for row in reversed(found))


def read_entries(ask: Ask, cluster: str, **asked: Unpack[AuditQuery]) -> tuple[Audit, ...]:
    """Entries of the audit, oldest first."""
    terms = ["cluster = :cluster", "seq > :after"]
    values: dict[str, object] = {"cluster": cluster, "after": asked.get("after", 0)}
    if (resource := asked.get("resource")) is not None:
        terms.append("resource = :resource")
        values["resource"] = resource
    if apply := asked.get("apply"):
        terms.append('"apply" = :apply')
        values["apply"] = apply
    beginnings = {"actor": asked.get("actor"), "commit": asked.get("commit"), "plan": asked.get("plan")}
    for column, words in beginnings.items():
        if words:
            # LIKE tells upper from lower case in one engine only.
            terms.append(f'substr("{column}", 1, :{column}_size) = :{column}')
            values |= {column: words, f"{column}_size": len(words)}
    if before := asked.get("before"):
        terms.append("seq < :before")
        values["before"] = before
    if verb := asked.get("verb"):
        terms.append("verb = :verb")
        values["verb"] = verb
    if (projects := asked.get("projects")) is not None:
        theirs = [pattern for name in sorted(projects) for pattern in (f"%/{name}/%", f"Project/{name}")]
        mine = {f"theirs{number}": pattern for number, pattern in enumerate(theirs)}
        terms.append(f"({' OR '.join(f'resource LIKE :{name}' for name in mine) or '1 = 0'})")
        values |= mine
    for name, comparison in (("since", ">="), ("until", "<")):
        if (moment := asked.get(name)) is not None:
            terms.append(f"at {comparison} :{name}")
            values[name] = moment
    sql = f"SELECT * FROM audit WHERE {' AND '.join(terms)}"
    found = ask(_newest(sql, asked.get("limit")), **values)
    return tuple(rows.audit_from_row(row) for row in reversed(found))


def read_cluster_entries(ask: Ask, cluster: str, limit: int) -> tuple[Audit, ...]:
    """The newest so many entries of the audit that are of no resource, newest first: applies, and what the
    loop was told."""
    sql = "SELECT * FROM audit WHERE cluster = :cluster AND resource = ''"
    return tuple(rows.audit_from_row(row) for row in ask(_newest(sql, limit), cluster=cluster))


def count_actions(ask: Ask, cluster: str, applies: Sequence[str]) -> dict[str, dict[str, int]]:
    """By apply, of how many resources the audit says each verb."""
    found: dict[str, dict[str, int]] = {}
    for at in range(0, len(applies), _MOST_NAMES):
        names = {f"apply{number}": name for number, name in enumerate(applies[at : at + _MOST_NAMES])}
        chosen = ", ".join(f":{name}" for name in names)
        sql = (
            'SELECT "apply", verb, COUNT(*) AS number FROM audit WHERE cluster = :cluster '
            f'AND "apply" IN ({chosen}) AND verb <> \'apply\' GROUP BY "apply", verb'
        )
        for row in ask(sql, cluster=cluster, **names):
            found.setdefault(row["apply"], {})[row["verb"]] = row["number"]
    return found


def read_actions(ask: Ask, cluster: str, apply: str, first: int, count: int) -> tuple[Audit, ...]:
    """Of the actions of an apply, in their order, those from `first` (from 0) on; with what failed of them,
    and every policy that did not count."""
    mine = 'FROM audit WHERE cluster = :cluster AND "apply" = :apply'
    asked = {"cluster": cluster, "apply": apply}
    # By the plus no engine walks the whole audit for its order: what is of the apply is found, and sorted.
    page = f"SELECT seq {mine} AND verb {_IS_ACTION} ORDER BY +seq LIMIT {int(count)} OFFSET {int(first)}"
    found = [*ask(f"SELECT * FROM audit WHERE seq IN ({page}) ORDER BY seq", **asked)]
    if found:
        names = {f"resource{number}": row["resource"] for number, row in enumerate(found)}
        theirs = ", ".join(f":{name}" for name in names)
        failed = f"SELECT * {mine} AND verb = 'failed' AND resource IN ({theirs}) ORDER BY seq"
        found += ask(failed, **asked, **names)
    found += ask(f"SELECT * {mine} AND verb = 'override' ORDER BY seq", **asked)
    return tuple(map(rows.audit_from_row, found))


def _newest(sql: str, limit: int | None) -> str:
    return f"{sql} ORDER BY seq DESC" + ("" if limit is None else f" LIMIT {int(limit)}")


def audited_resources(ask: Ask, cluster: str) -> set[str]:
    """All that the audit has entries of."""
    sql = "SELECT DISTINCT resource FROM audit WHERE cluster = :cluster AND resource <> ''"
    return {row["resource"] for row in ask(sql, cluster=cluster)}


def read_metas(ask: Ask, keys: Sequence[str]) -> dict[str, str]:
    """What is known under each of these keys, of those that are known."""
    names = {f"key{number}": key for number, key in enumerate(keys)}
    sql = f"SELECT * FROM meta WHERE key IN ({', '.join(f':{name}' for name in names)})"
    return {row["key"]: row["value"] for row in (ask(sql, **names) if names else ())}
