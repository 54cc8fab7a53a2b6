"""The resource a person means: `llama-sft`, `vision/llama-sft`, `Session/vision/llama-sft` are the same."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from bai.queries.names.kind_names import kind_of
from bai.render.humanize import clean, join_limited
from schemas.problems.errors.command import AmbiguousName, NoSuchResource
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.queries.view import ClusterView
    from reconciler.store.reader import StoreReader
    from reconciler.values.plan_options import PlanOptions
    from reconciler.values.state import Desired


def resolve_name(name: str, identities: Iterable[str], kind: str = "") -> str:
    """The one identity that `name` means, among those of `kind` when given.

    Kinds are matched without regard to case and plural (`session`, `sessions`). Raises NoSuchResource (with
    what was probably meant) and AmbiguousName.
    """
    known = sorted(identity for identity in identities if not kind or ref_of(identity).kind == kind)
    wanted = name.strip("/")
    found = [identity for identity in known if _matches(wanted, identity)]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousName(
            name=clean(name), candidates=join_limited(map(clean, found)), hint="write the whole name"
        )
    raise NoSuchResource(
        what=_kind_text(kind) or "resource", name=clean(name), hint=suggest_names(wanted, known)
    )


def _kind_text(kind: str) -> str:
    """`ResourceGroup` → `resource group`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()


def resolve_sessions(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The sessions' identities; a pattern (`Session/vision/*`) stays one. Raises as `resolve_name`."""
    known = tuple(known)
    return tuple(name if "*" in name else resolve_name(name, known, "Session") for name in names)


def resolve_with_past(name: str, view: ClusterView, kind: str = "") -> str:
    """The identity of a resource (of `kind`, when given) that is recorded, else of one that is wanted, else
    of one that once was; of those that may be seen. Raises as `resolve_name`."""
    store = view.store
    recorded = store.recorded_identities(view.cluster) if store is not None else ()
    there = {each for each in recorded if view.sees(each)}
    with contextlib.suppress(NoSuchResource):
        return resolve_name(name, there, kind)
    known = there | {each for each in view.desired.digests if view.sees(each)}
    try:
        return resolve_name(name, known, kind)
    except NoSuchResource:
        past = store.audited_resources(view.cluster) if store is not None else set()
        return resolve_name(name, known | {each for each in past if view.sees(each)}, kind)


def resolve_targets(names: Iterable[str], desired: Desired, store: StoreReader | None) -> tuple[str, ...]:
    """Whole identities of what is written or recorded; patterns and what means nothing stay as they are, for
    the plan to judge. Raises AmbiguousName."""
    names = tuple(names)
    if not names:
        return ()
    known = {
        *desired.digests,
        *(identity_of("Node", node.name) for node in desired.repository.machines.values()),
    }
    if store is not None:
        known.update(store.recorded(desired.cluster))
    found = []
    for name in names:
        try:
            found.append(name if "*" in name else resolve_name(name, known))
        except NoSuchResource:
            found.append(name)
    return tuple(found)


def resolve_plan_options(options: PlanOptions, desired: Desired, store: StoreReader | None) -> PlanOptions:
    """With whole identities in place of what a person wrote. Raises as `resolve_name`."""
    return replace(
        options,
        targets=resolve_targets(options.targets, desired, store),
        replace=resolve_sessions(options.replace, desired.sessions()),
    )


def is_named(name: str, identity: str) -> bool:
    """Whether `name` can mean this one."""
    return _matches(name.strip("/"), identity)


def _matches(wanted: str, identity: str) -> bool:
    parts, words = identity.split("/"), wanted.split("/")
    if len(words) == len(parts):
        return words[1:] == parts[1:] and kind_of(words[0]) == parts[0]
    if len(words) == 2 and len(parts) == 3 and _same_kind(words[0], parts[0]) and words[1] == parts[2]:
        return True
    return len(words) < len(parts) and words == parts[-len(words) :]


def _same_kind(word: str, kind: str) -> bool:
    return word.lower() in (kind.lower(), f"{kind.lower()}s")


def suggest_names(wanted: str, identities: Iterable[str]) -> str:
    """`did you mean ...?`, what there is, or nothing."""
    known = list(identities)
    short = {form: identity for identity in known for form in (identity, *_suffixes(identity))}
    close = get_close_matches(wanted, short, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(dict.fromkeys(clean(short[form]) for form in close))}?"
    return f"there is {join_limited(map(clean, known))}" if known else "there is none"


def _suffixes(identity: str) -> list[str]:
    parts = identity.split("/")
    return ["/".join(parts[at:]) for at in range(1, len(parts))]


def split_kernel(name: str, identities: Iterable[str]) -> tuple[str, str]:
    """`llama-sft/sub1` → the session's identity and the kernel `sub1`; without a kernel, `main1`.

    A name that means a session as a whole wins over one that names a kernel. Raises as `resolve_name`.
    """
    known = [identity for identity in identities if ref_of(identity).kind == "Session"]
    try:
        return resolve_name(name, known, "Session"), "main1"
    except NoSuchResource:
        head, slash, kernel = name.rpartition("/")
        if not slash:
            raise
        try:
            return resolve_name(head, known, "Session"), kernel
        except NoSuchResource:
            pass
        raise
