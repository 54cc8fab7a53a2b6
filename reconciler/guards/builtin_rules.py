"""The built-in rules of Policies, each a function from changes to what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from planner.model.slots import plural
from reconciler.guards.cel.steps import Budget
from reconciler.guards.proposed_change import ProposedChange, policy_matches
from reconciler.guards.signers import ImageSigners, applies_to_image, reference_or_name, started_images
from schemas.kinds.policy import Guards, Policy, Signatures
from schemas.values.linux_users import is_root
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from planner.model.uses import QuotaUse
    from schemas.kinds.session import Session
    from schemas.values.image_reference import ImageReference

MAX_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """What a change, or several together, break."""

    resources: tuple[str, ...]
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """What guards know besides the changes. `recorded`: identity → document; `plan`: what rules in CEL know
    of it; `budget`: what all of them together may cost."""

    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quotas: tuple[QuotaUse, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    signers: ImageSigners = field(default_factory=ImageSigners)
    budget: Budget = field(default_factory=Budget)


GuardRule = Callable[[Policy, Sequence[ProposedChange], GuardFacts], Iterator[GuardFinding]]


def _max_deletions(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    most = policy.spec.guards.max_deletions
    gone = tuple(each.id for each in changes if each.deletes)
    if most is None or not gone:
        return
    if most.count is not None and len(gone) > most.count:
        yield GuardFinding(gone, f"{plural(len(gone), 'deletion')} in one plan, {most.count} at most")
    elif most.percent is not None:
        total = sum(policy_matches(policy.spec.match, name, text) for name, text in facts.recorded.items())
        if len(gone) * 100 > most.percent * total:
            why = f"{plural(len(gone), 'deletion')} of {total} resources in one plan, {most.percent}% at most"
            yield GuardFinding(gone, why)


def _prevent_destroy(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    for each in changes:
        if each.deletes:
            yield GuardFinding((each.id,), f"{each.id} would be deleted")
        elif each.action.verb == "replace":
            yield GuardFinding((each.id,), f"{each.id} would be replaced, which stops it first")


def _max_provisioned(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    most = policy.spec.guards.max_provisioned
    nodes = tuple(each.id for each in changes if each.action.provision)
    if most is not None and len(nodes) > most:
        why = f"{plural(len(nodes), 'node')} would be provisioned by one plan, {most} at most"
        yield GuardFinding(nodes, why, "lower maxUnavailable of their profile")


def _require_owner(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    for each, session in _session_changes(changes):
        if session.spec.owner is None:
            yield GuardFinding((each.id,), f"{each.id} has no owner", "write spec.owner")


def _images(policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts) -> Iterator[GuardFinding]:
    rules = policy.spec.guards.images
    if rules is None:
        return
    for each, session in _session_changes(changes):
        for image in _session_images(each, session):
            if rules.allowed and not any(fnmatchcase(image.name, one) for one in rules.allowed):
                why = f"{each.id} runs {image.short}, which is none of {_join_names(rules.allowed)}"
                yield GuardFinding((each.id,), why)
        yield from _unsigned_images(each, rules.signatures, facts)
        for image in started_images(each.action) if rules.digest else ():
            if not image.digest:
                why = f"{each.id} runs {image.short}, which is not named by its digest"
                hint = f"write {image.short}@sha256:..., or let its registry be asked (bai images)"
                yield GuardFinding((each.id,), why, hint)


def _unsigned_images(
    each: ProposedChange, rules: Sequence[Signatures], facts: GuardFacts
) -> Iterator[GuardFinding]:
    for image in started_images(each.action):
        for rule in rules:
            if not applies_to_image(rule, image) or facts.signers.signed_by(image.digest, rule.keys):
                continue
            if not image.digest:
                why = f"{each.id} runs {image.short}, whose signatures nobody can know without its digest"
                told = facts.signers.unanswered.get(str(image), "")
            else:
                why = f"{each.id} runs {image.short}, which is not known to be signed by who has to sign it"
                told = facts.signers.unanswered.get(str(image), "its registry was not asked")
            hint = "`bai images verify` tells who signed an image; cosign sign --key signs it"
            yield GuardFinding((each.id,), f"{why}: {told}" if told else why, hint)


def _mounts(policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts) -> Iterator[GuardFinding]:
    rules = policy.spec.guards.mounts
    if rules is None:
        return
    for each, session in _session_changes(changes):
        for mount in session.spec.mounts:
            if rules.allowed and not _matches_any(mount.volume, rules.allowed):
                why = f"{each.id} mounts {mount.volume}, which is none of {_join_names(rules.allowed)}"
                yield GuardFinding((each.id,), why)
            elif not mount.read_only and _matches_any(mount.volume, rules.read_only):
                why = f"{each.id} may only read {mount.volume}"
                yield GuardFinding((each.id,), why, "write readOnly: true")


def _forbid(policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts) -> Iterator[GuardFinding]:
    forbidden = policy.spec.guards.forbid
    for each, session in _session_changes(changes):
        rules = session.spec.container
        after = each.action.session_after
        if "root" in forbidden and any(is_root(part) for part in (rules.user or "").split(":")):
            why = f"{each.id} runs as {rules.user}, which is root"
            yield GuardFinding((each.id,), why, "leave container.user out")
        if "capabilities" in forbidden and rules.capabilities:
            why = f"{each.id} has {_join_names(rules.capabilities)}"
            yield GuardFinding((each.id,), why, "leave container.capabilities out")
        networks = {spec.network.mode for spec in after.specs if spec.network} if after else set()
        if "host-network" in forbidden and "host" in networks:
            yield GuardFinding((each.id,), f"{each.id} would be on its nodes' own network")


def _quota_headroom(
    policy: Policy, changes: Sequence[ProposedChange], facts: GuardFacts
) -> Iterator[GuardFinding]:
    """What ends may leave less than it asks for; only what begins is held to it."""
    share = policy.spec.guards.quota_headroom
    for use in facts.quotas if share is not None else ():
        for slot, limit in sorted(use.limit.items()):
            after = use.after.get(slot, 0)
            if after > use.before.get(slot, 0) and after * 100 > limit * (100 - (share or 0)):
                starts = tuple(
                    each.id for each in changes if each.claims_devices and _is_charged_to(each, use, facts)
                )
                if starts:
                    free = max(0, limit - after) * 100 // limit if limit else 0
                    why = f"{free}% of {use.quota}'s {slot} would stay unused, {share}% have to"
                    yield GuardFinding(starts, why)


def _is_charged_to(each: ProposedChange, use: QuotaUse, facts: GuardFacts) -> bool:
    kind, _, name = use.subject.partition(" ")
    metadata, spec = each.after.get("metadata", {}), each.after.get("spec", {})
    if kind == "cluster":
        return True
    if kind == "project":
        return bool(metadata.get("project") == name)
    if kind == "user":
        email = facts.recorded.get(identity_of("User", name), {}).get("spec", {}).get("email")
        return spec.get("owner") in (name, *((email,) if email else ()))
    project = facts.recorded.get(identity_of("Project", metadata.get("project")), {}).get("spec", {})
    return project.get("domain") in (None, name)


def _session_changes(changes: Sequence[ProposedChange]) -> Iterator[tuple[ProposedChange, Session]]:
    for each in changes:
        if each.session is not None:
            yield each, each.session


def _session_images(each: ProposedChange, session: Session) -> Iterator[ImageReference]:
    """Of all its containers, as the document names them and as they are started."""
    texts = {container.image for container in session.spec.containers if container.image}
    found = {reference_or_name(text) for text in texts} | set(started_images(each.action))
    yield from sorted(found)


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN_NAMES} more" if len(names) > MAX_SHOWN_NAMES else ""
    return ", ".join(names[:MAX_SHOWN_NAMES]) + more


GUARDS: Mapping[str, GuardRule] = {
    "max_deletions": _max_deletions,
    "prevent_destroy": _prevent_destroy,
    "max_provisioned": _max_provisioned,
    "require_owner": _require_owner,
    "images": _images,
    "mounts": _mounts,
    "forbid": _forbid,
    "quota_headroom": _quota_headroom,
}


def enabled_guards(guards: Guards) -> Iterator[tuple[str, GuardRule]]:
    """Those that a policy asks for, by their names in documents."""
    for field_name, guard in GUARDS.items():
        if getattr(guards, field_name) not in (None, False, ()):
            yield type(guards).model_fields[field_name].alias or field_name, guard
