"""Entries of the audit as JSON."""

from __future__ import annotations

from bai.render.humanize import moment
from reconciler.values.records import Audit


def audit_json(entry: Audit) -> dict[str, object]:
    """One entry of `bai.audit/v1`."""
    return {
        "seq": entry.seq,
        "at": moment(entry.at),
        "actor": entry.actor,
        "verb": entry.verb,
        "resource": entry.resource,
        "cause": entry.cause,
        "commit": entry.commit,
        "plan": entry.plan,
        "apply": entry.apply,
        "before": entry.before,
        "after": entry.after,
        "changes": [{"path": c.path, "before": c.before, "after": c.after} for c in entry.changes],
    }
