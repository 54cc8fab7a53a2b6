"""Actual from the store and the provider: the store says what was decided, the provider what runs, and
reality wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.model.huge_pages import PageGrant
from planner.model.plan_time import PlanTime
from planner.model.types import DeviceGrant, KernelPlacement
from providers.abilities import AcceptsLocations
from providers.base import Capabilities, Claim, Observation, Observed, Provider
from providers.foreign_use import ForeignUse
from reconciler.observe.existing_memo import ExistingMemo, KnownExisting
from reconciler.values.adoption import placement_of, record_from_labels
from reconciler.values.records import ALL_NODES, Contact, Recorded
from reconciler.values.session_phase import LIVE, derive_phase
from reconciler.values.state import Actual, Existing, ForeignHold, UnreachableNode
from schemas.problems.errors.provider import ProviderError
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from reconciler.store.reader import StoreReader
    from schemas.hardware.model import Hardware


def observe(
    store: StoreReader | None,
    provider: Provider | None,
    cluster: str,
    *,
    repo: str,
    hardware: Mapping[str, Hardware] | None = None,
    memo: ExistingMemo | None = None,
) -> Actual:
    """What is recorded and what runs; without a provider, only what is recorded, and without a store nothing
    is.

    Never raises for what cannot be observed: `complete` is False then, and `errors` says why.
    """
    return add_recorded(store, read_provider(provider), cluster, repo=repo, hardware=hardware, memo=memo)


def add_recorded(
    store: StoreReader | None,
    seen: ProviderReading,
    cluster: str,
    *,
    repo: str,
    hardware: Mapping[str, Hardware] | None = None,
    memo: ExistingMemo | None = None,
) -> Actual:
    """What was seen, with what is recorded now."""
    records = store.cluster_records(cluster) if store is not None else None
    found = actual_state(
        records.recorded if records else {},
        seen.observation,
        seen.capabilities,
        repo=repo,
        cluster=cluster,
        hardware=hardware or {},
        memo=memo,
    )
    if records is None:
        return found
    return replace(
        found,
        missed=unreachable_nodes(seen.observation, records.contacts),
        contacts=records.contacts,
        samples=records.samples,
        balances=records.balances,
        provision_records=records.provision_records,
        rollout_orders=records.rollout_orders,
    )


def unreachable_nodes(
    seen: Observation | None, contacts: Mapping[str, Contact]
) -> dict[str, UnreachableNode]:
    """The nodes that could not be asked, with what is known of when they were last reached."""
    found = {}
    for node, why in sorted((seen.unreachable if seen else {}).items()):
        known = contacts.get(node, Contact(node))
        found[node] = UnreachableNode(
            why, known.lost, stranger=known.reached is None and ALL_NODES not in contacts
        )
    return found


@dataclass(frozen=True, slots=True)
class ProviderReading:
    """What a provider said; nothing where nobody was asked."""

    observation: Observation | None = None
    capabilities: Capabilities | None = None


def read_provider(provider: Provider | None) -> ProviderReading:
    """Ask the provider, if there is one. Never raises: what cannot be observed is incomplete."""
    if provider is None:
        return ProviderReading()
    try:
        capabilities = provider.capabilities()
        return ProviderReading(provider.observe(), capabilities)
    except ProviderError as error:
        return ProviderReading(_nothing_seen(error))


def read_kernels(provider: Provider | None) -> ProviderReading:
    """The same for who only looks: nobody finds out what the provider could do."""
    if provider is None:
        return ProviderReading()
    try:
        return ProviderReading(provider.observe())
    except ProviderError as error:
        return ProviderReading(_nothing_seen(error))


def add_capabilities(seen: ProviderReading, provider: Provider) -> ProviderReading:
    """What was seen, and what the provider can do. Never raises either."""
    try:
        return replace(seen, capabilities=provider.capabilities())
    except ProviderError as error:
        return ProviderReading(_nothing_seen(error))


def _nothing_seen(error: ProviderError) -> Observation:
    return Observation((), complete=False, errors=(str(error),))


def actual_state(
    recorded: Mapping[str, Recorded],
    seen: Observation | None,
    capabilities: Capabilities | None,
    *,
    repo: str,
    cluster: str,
    hardware: Mapping[str, Hardware],
    memo: ExistingMemo | None = None,
) -> Actual:
    """Records and kernels put together; `seen` is None when nobody looked. Pure."""
    memo = ExistingMemo() if memo is None else memo
    found = memo.whole(
        (recorded, seen, capabilities, repo, cluster),
        lambda: _put_state_together(recorded, seen, capabilities, repo, cluster, memo),
    )
    return replace(found, hardware=dict(hardware))


def _put_state_together(
    recorded: Mapping[str, Recorded],
    seen: Observation | None,
    capabilities: Capabilities | None,
    repo: str,
    cluster: str,
    memo: ExistingMemo,
) -> Actual:
    """Without the hardware of nodes."""
    shown = sorted(seen.kernels if seen else (), key=lambda each: each.id)
    kernels, claims = _reject_claims(shown, recorded, seen.unreachable.keys() if seen else frozenset())
    claimed = (*(seen.claimed if seen else ()), *claims)
    names = frozenset(each.kernel for each in claimed)
    ours: dict[str, list[Observed]] = {}
    for kernel in kernels:
        if (kernel.labels.repo, kernel.labels.cluster) == (repo, cluster):
            ours.setdefault(_owner_identity(kernel), []).append(kernel)
    existing = _existing_resources(recorded, memo.kernels(ours), seen, names, memo)
    return Actual(
        repo=repo,
        cluster=cluster,
        existing=existing,
        holds=(
            *(hold for kernel in kernels if (hold := _foreign_hold(kernel, repo, cluster)) is not None),
            *(_use_of_others(use) for use in (seen.foreign if seen else ())),
        ),
        hardware={},
        capabilities=capabilities,
        complete=seen.complete if seen else True,
        errors=seen.errors if seen else (),
        unlabelled=seen.unlabelled if seen else (),
        claimed=claimed,
        cordoned=seen.cordoned if seen else {},
        outside_quotas=seen.quotas if seen else (),
        offered=seen.offered if seen else None,
        node_asks=seen.node_asks if seen else None,
        missed=unreachable_nodes(seen, {}),
    )


def _reject_claims(
    kernels: list[Observed], recorded: Mapping[str, Recorded], unreachable: Set[str]
) -> tuple[list[Observed], list[Claim]]:
    """A kernel that is on record is on the node that it was placed on, where it is seen there or may be:
    another node that shows one of this name, by whatever labels, has been taken over."""
    where = {kernel: node for record in recorded.values() for kernel, node in recorded_nodes(record).items()}
    seen = {(kernel.id, kernel.labels.node) for kernel in kernels}
    found: list[Observed] = []
    claimed: list[Claim] = []
    for kernel in kernels:
        own = where.get(kernel.id, kernel.labels.node)
        if own != kernel.labels.node and ((kernel.id, own) in seen or own in unreachable):
            claimed.append(Claim(kernel.id, kernel.labels.node))
        else:
            found.append(kernel)
    return found, claimed


def locate_kernels(provider: Provider, actual: Actual) -> None:
    """Tell the provider where the kernels on record were placed."""
    if isinstance(provider, AcceptsLocations):
        records = (each.recorded for each in actual.existing.values())
        provider.locate(
            {kernel: node for record in records for kernel, node in recorded_nodes(record).items()}
        )


def recorded_nodes(record: Recorded) -> Mapping[str, str]:
    """Kernel → node, as far as that is on record."""
    parts = record.placement.kernels if record.placement is not None else ()
    if len(parts) != len(record.kernels):
        return {}
    return {kernel: part.node for kernel, part in zip(record.kernels, parts, strict=True)}


def _owner_identity(kernel: Observed) -> str:
    """What a kernel of ours belongs to; one that names no session stands for itself."""
    resource = kernel.labels.resource
    return resource if ref_of(resource).kind == "Session" else identity_of("Kernel", kernel.id)


def _existing_resources(
    recorded: Mapping[str, Recorded],
    ours: Mapping[str, tuple[Observed, ...]],
    seen: Observation | None,
    claimed: Set[str],
    memo: ExistingMemo,
) -> dict[str, Existing]:
    """By identity; the same object as long as all that it rests on is the same."""

    def make(identity: str, time: PlanTime) -> KnownExisting:
        record, kernels = recorded.get(identity), ours.get(identity, ())
        made_of = (record, kernels, _sight(record, seen, claimed))
        last = memo.each.last(identity)
        if last is not None and last.made_of == made_of:
            return last
        return KnownExisting(made_of, _put_together(identity, record, kernels, seen=seen, claimed=claimed))

    around = (seen is None, seen is not None and seen.complete, seen.unreachable if seen else {}, claimed)
    keys = sorted([*recorded, *(identity for identity in ours if identity not in recorded)])
    found = memo.each.values(keys, (recorded, ours), around, PlanTime(0.0), make)
    return {identity: each.existing for identity, each in found.items()}


def _sight(record: Recorded | None, seen: Observation | None, claimed: Set[str]) -> tuple[object, ...]:
    """How much was seen of what is on record."""
    if seen is None:
        return ()
    parts = record.placement.kernels if record is not None and record.placement is not None else ()
    lost = tuple(part.node in seen.unreachable for part in parts) if seen.unreachable else ()
    denied = tuple(name in claimed for name in record.kernels) if claimed and record is not None else ()
    return (seen.complete, lost, denied)


def _put_together(
    identity: str,
    record: Recorded | None,
    kernels: Sequence[Observed],
    *,
    seen: Observation | None,
    claimed: Set[str],
) -> Existing:
    adopt = record is None or _labels_are_newer(record, kernels, seen)
    if record is None or adopt:
        record = record_from_labels(kernels)
    if seen is None:
        return Existing(
            identity,
            record,
            record.phase,
            result=record.result,
            exit_codes=record.exit_codes,
            reason=record.reason,
        )
    current = tuple(kernel for kernel in kernels if kernel.id in record.kernels)
    away = _kernels_out_of_reach(record, {kernel.id for kernel in current}, seen.unreachable, claimed)
    found = derive_phase(record, current, complete=seen.complete, away=away)
    return Existing(
        id=identity,
        recorded=record,
        phase=found.phase,
        kernels=current,
        strays=tuple(kernel for kernel in kernels if kernel.id not in record.kernels),
        missing=found.missing,
        away=away,
        result=found.result,
        exit_codes=found.exit_codes,
        reason=found.reason,
        adopted=adopt,
    )


def _labels_are_newer(record: Recorded, kernels: Sequence[Observed], seen: Observation | None) -> bool:
    """Whether labels know better than the record: it comes from a restored backup, or waits to become what
    runs already. Not while its own kernels live or may live: a newer generation would have replaced them, and
    a node that claims one is not believed."""
    newest = max((kernel.labels.generation for kernel in kernels), default=0)
    if newest == record.generation:
        return bool(newest) and record.phase == "PENDING"
    alive = any(kernel.id in record.kernels and kernel.state in LIVE for kernel in kernels)
    out_of_sight = seen is not None and any(
        node in seen.unreachable for node in recorded_nodes(record).values()
    )
    return newest > record.generation and not alive and not out_of_sight


def _kernels_out_of_reach(
    record: Recorded, seen: Set[str], unreachable: Mapping[str, str], claimed: Set[str]
) -> dict[str, str]:
    """The record's kernels that were not seen because their nodes could not be asked, and these nodes. Who is
    seen only where he cannot be counts as such, too: names of nodes may have been exchanged."""
    if record.placement is None or not (unreachable or claimed):
        return {}
    where = recorded_nodes(record)
    if not where:
        nodes = sorted({part.node for part in record.placement.kernels} & unreachable.keys())
        where = dict.fromkeys(record.kernels, nodes[0] if nodes else "")
    return {
        kernel: where[kernel]
        for kernel in record.kernels
        if (where[kernel] in unreachable or kernel in claimed) and kernel not in seen
    }


@once_per_value
def _use_of_others(use: ForeignUse) -> ForeignHold:
    """Of a whole node, together."""
    devices = tuple(DeviceGrant(name, "") for name in use.devices)
    pages = tuple(PageGrant(slot, None, amount) for slot, amount in sorted(use.hugepages.items()))
    part = KernelPlacement(use.owner, use.node, (), use.cpu_milli, (), use.memory, devices, hugepages=pages)
    return ForeignHold(use.owner, use.owner, part, passing=True)


def _foreign_hold(kernel: Observed, repo: str, cluster: str) -> ForeignHold | None:
    """What a live kernel of another owner sits on; nothing when it does not say."""
    labels = kernel.labels
    if (labels.repo, labels.cluster) == (repo, cluster) or kernel.state not in LIVE:
        return None
    placement = placement_of(labels)
    if placement is None:
        return None
    return ForeignHold(kernel.id, f"{labels.repo}/{labels.cluster}/{labels.resource}", placement)
