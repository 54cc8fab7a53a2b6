"""An action as guards look at it: what it is about, and what stood and will stand in its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reconciler.values.encoding.placement_json import canonical_json
from reconciler.values.session_phase import ENDED
from schemas.kinds.session import Session
from schemas.rules.policy_rules import PolicyOverride, parse_override
from schemas.values.envelope import OVERRIDE
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from reconciler.values.plan import Action
    from schemas.kinds.policy import PolicyMatch


@dataclass(frozen=True)
class ProposedChange:
    """One change of a plan."""

    action: Action

    @property
    def id(self) -> str:
        return self.action.id

    @cached_property
    def kind(self) -> str:
        return ref_of(self.id).kind

    @property
    def before(self) -> Mapping[str, Any]:
        """The recorded document; empty without one."""
        return self.action.before.document if self.action.before else {}

    @property
    def after(self) -> Mapping[str, Any]:
        """The document as it is to be; empty for a deletion."""
        return self.action.after.document if self.action.after else {}

    @property
    def deletes(self) -> bool:
        """Whether something is lost that anybody may miss."""
        before = self.action.session_before
        return self.action.verb == "delete" and (before is None or before.phase not in ENDED)

    @cached_property
    def session(self) -> Session | None:
        """The session that this starts, or whose document it changes; None for everything else, and where it
        ends or only makes room."""
        before, after = self.action.session_before, self.action.session_after
        if self.kind != "Session" or after is None or not after.document or after.phase in ENDED:
            return None
        if not after.specs and before is not None and before.digest == after.digest:
            return None
        return Session.model_validate_json(canonical_json(after.document))

    @cached_property
    def claims_devices(self) -> bool:
        """Whether a session gets devices that it did not have."""
        before, after = self.action.session_before, self.action.session_after
        if after is None or after.placement is None or not after.specs:
            return False
        return before is None or before.placement != after.placement

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What rules in CEL know as `action`."""
        action, metadata = self.action, (self.after or self.before).get("metadata", {})
        placed = action.placement_after
        return {
            "id": self.id,
            "kind": self.kind,
            "name": metadata.get("name", ref_of(self.id).name),
            "project": metadata.get("project", ""),
            "verb": action.verb,
            "why": action.why,
            "nodes": sorted({part.node for part in placed.kernels}) if placed else [],
            "provisions": action.provision is not None,
            "changes": [
                {"path": one.path, "before": one.before, "after": one.after, "forces": one.forces}
                for one in action.changes
            ],
        }

    def override(self, policy: str) -> PolicyOverride | None:
        """What its document says against a policy: the one that stays, or what is deleted."""
        metadata = (self.after or self.before).get("metadata", {})
        text = metadata.get("annotations", {}).get(f"{OVERRIDE}{policy}")
        return parse_override(text) if text is not None else None


def policy_matches(match: PolicyMatch, identity: str, *documents: Mapping[str, Any]) -> bool:
    """Whether one of a resource's documents has all that a policy is about. Of a node of a pool, which has
    none, only its kind is known."""
    kind = ref_of(identity).kind
    if kind == "Kernel" or (match.kinds and kind not in match.kinds):
        return False
    if not match.projects and not match.labels:
        return True
    return any(
        _metadata_matches(match, identity, document.get("metadata", {})) for document in documents if document
    )


def _metadata_matches(match: PolicyMatch, identity: str, metadata: Mapping[str, Any]) -> bool:
    project = ref_of(identity).name if ref_of(identity).kind == "Project" else metadata.get("project")
    if match.projects and project not in match.projects:
        return False
    return bool(match.labels.items() <= metadata.get("labels", {}).items())
