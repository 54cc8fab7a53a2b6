"""Actual from the store and the provider: the store says what was decided, the provider what runs, and
reality wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from providers.base import Capabilities, Observation, Observed, Provider
from reconciler.actual import Actual, Existing, Hold
from reconciler.adopt import adopted, placement_of
from reconciler.basis import basis
from reconciler.derive import LIVE, derive
from reconciler.plan import Plan
from reconciler.records import Recorded
from schemas.errors import ProviderError
from schemas.hardware.model import Hardware

if TYPE_CHECKING:
    from reconciler.store import Store


def observe(
    store: Store | None,
    provider: Provider | None,
    cluster: str,
    *,
    repo: str,
    hardware: Mapping[str, Hardware] | None = None,
) -> Actual:
    """What is recorded and what runs; without a provider, only what is recorded, and without a store nothing
    is.

    Never raises for what cannot be observed: `complete` is False then, and `errors` says why.
    """
    recorded = store.recorded(cluster) if store is not None else {}
    if provider is None:
        return combine(recorded, None, None, repo=repo, cluster=cluster, hardware=hardware or {})
    seen, capabilities = _look(provider)
    return combine(recorded, seen, capabilities, repo=repo, cluster=cluster, hardware=hardware or {})


def current_basis(store: Store, provider: Provider, plan: Plan) -> str:
    """The basis as it is now; apply compares it with `plan.basis` under its lease."""
    return basis(observe(store, provider, plan.cluster, repo=plan.repo))


def _look(provider: Provider) -> tuple[Observation, Capabilities | None]:
    try:
        capabilities = provider.capabilities()
        return provider.observe(), capabilities
    except ProviderError as error:
        return Observation((), complete=False, errors=(str(error),)), None


def combine(
    recorded: Mapping[str, Recorded],
    seen: Observation | None,
    capabilities: Capabilities | None,
    *,
    repo: str,
    cluster: str,
    hardware: Mapping[str, Hardware],
) -> Actual:
    """Records and kernels put together; `seen` is None when nobody looked. Pure."""
    kernels = sorted(seen.kernels if seen else (), key=lambda kernel: kernel.id)
    ours: dict[str, list[Observed]] = {}
    for kernel in kernels:
        if (kernel.labels.repo, kernel.labels.cluster) == (repo, cluster):
            ours.setdefault(_identity(kernel), []).append(kernel)
    complete = seen.complete if seen else True
    existing = {
        identity: _existing(
            identity,
            recorded.get(identity),
            ours.get(identity, []),
            complete=complete,
            looked=seen is not None,
        )
        for identity in sorted({*recorded, *ours})
    }
    return Actual(
        repo=repo,
        cluster=cluster,
        existing=existing,
        holds=tuple(hold for kernel in kernels if (hold := _hold(kernel, repo, cluster)) is not None),
        hardware=dict(hardware),
        capabilities=capabilities,
        complete=complete,
        errors=seen.errors if seen else (),
        unlabelled=seen.unlabelled if seen else (),
    )


def _identity(kernel: Observed) -> str:
    """What a kernel of ours belongs to; one that names no session stands for itself."""
    resource = kernel.labels.resource
    return resource if resource.startswith("Session/") else f"Kernel/{kernel.id}"


def _existing(
    identity: str, record: Recorded | None, kernels: list[Observed], *, complete: bool, looked: bool
) -> Existing:
    newest = max((kernel.labels.generation for kernel in kernels), default=0)
    # A record older than what runs comes from a restored backup: the labels know better.
    adopt = record is None or newest > record.generation
    if record is None or adopt:
        record = adopted(kernels)
    if not looked:
        return Existing(
            identity,
            record,
            record.phase,
            result=record.result,
            exit_codes=record.exit_codes,
            reason=record.reason,
        )
    current = tuple(kernel for kernel in kernels if kernel.id in record.kernels)
    found = derive(record, current, complete=complete)
    return Existing(
        id=identity,
        recorded=record,
        phase=found.phase,
        kernels=current,
        strays=tuple(kernel for kernel in kernels if kernel.id not in record.kernels),
        missing=found.missing,
        result=found.result,
        exit_codes=found.exit_codes,
        reason=found.reason,
        adopted=adopt,
    )


def _hold(kernel: Observed, repo: str, cluster: str) -> Hold | None:
    """What a live kernel of another owner sits on; nothing when it does not say."""
    labels = kernel.labels
    if (labels.repo, labels.cluster) == (repo, cluster) or kernel.state not in LIVE:
        return None
    placement = placement_of(labels)
    if placement is None:
        return None
    return Hold(
        kernel.id, f"{labels.repo}/{labels.cluster}/{labels.resource}", replace(placement, node=labels.node)
    )
