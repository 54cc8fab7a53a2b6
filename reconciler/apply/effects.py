"""Carrying out single steps: the effect, its errors, and when to try again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from providers.base import Fence, KernelSpec, Provider, unfenced
from providers.images import PullProgress
from reconciler.apply.image_pulls import create_with_image, pull_image
from reconciler.apply.node_effects import NodeProgress, probe_node, provision_node
from reconciler.apply.steps import Step
from reconciler.apply.targets import ApplyTargets, Traffic
from reconciler.values.session_phase import LIVE
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from schemas.values.resource_ref import ref_of

ATTEMPTS = 4
FIRST_DELAY = 0.5
"""Seconds before the second attempt; doubled for each further one."""


@dataclass(frozen=True, slots=True)
class KernelStarts:
    """One was created, and its engine is still to start it."""


@dataclass(frozen=True, slots=True)
class Draining:
    """A replica that is about to be stopped still has so many connections."""

    connections: int


class StillDraining(Exception):
    """A replica has connections yet, and time for them: this apply does not wait for their end."""


EffectProgress = PullProgress | NodeProgress | KernelStarts | Draining
"""What is heard of an effect while it goes on."""


def _ignore_progress(progress: EffectProgress) -> None:
    return None


def carry_out(
    step: Step,
    targets: ApplyTargets,
    on_progress: Callable[[EffectProgress], None] = _ignore_progress,
    fence: Fence = unfenced,
    stop: threading.Event | None = None,
) -> None:
    """Do one step's effect; `on_progress` hears how far a pull, a node or a kernel has come. `stop` ends what
    only waits. Raises BaiError, StillDraining; what `fence` raises, which is asked right before kernels are
    changed."""
    provider, storage, secret = targets.provider, targets.storage, targets.secrets.for_infrastructure
    match step.kind:
        case "create" if step.spec is not None:
            spec = _with_secrets(step, step.spec, targets)
            create_with_image(
                step.pull, lambda: _create(spec, provider, fence, on_progress), provider, secret, on_progress
            )
        case "pull" if step.pull is not None:
            pull_image(step.pull, provider, secret, on_progress)
        case "provision" if step.provision is not None:
            provision_node(step.provision, targets.provisioning, on_progress)
        case "probe":
            probe_node(step.kernel_id, provider, on_progress)
        case "update" if step.spec is not None:
            provider.update(step.kernel_id, _with_secrets(step, step.spec, targets), fence)
        case "drain":
            _drain(step, targets.traffic, on_progress, stop or threading.Event())
        case "stop":
            fence()
            _stop(step, provider)
        case "remove":
            fence()
            provider.remove(step.kernel_id)
        case "make" if step.folder is not None and storage is not None:
            storage.make(step.folder)
        case "trash" if step.folder is not None and step.entry is not None and storage is not None:
            storage.trash(step.folder, step.entry)
        case _:
            raise ProviderError(provider="", why=f"step {step.key} has nothing to carry out")


def retry_delay(error: BaseException, attempt: int) -> float | None:
    """Seconds to wait before the next attempt (the first was attempt 1), or None when there is none."""
    if isinstance(error, BaiError) and error.retryable and attempt < ATTEMPTS:
        return FIRST_DELAY * 2.0 ** (attempt - 1)
    return None


def error_text(error: BaseException) -> str:
    """What to tell a person about an error of a step."""
    return str(error) if isinstance(error, BaiError) else f"{type(error).__name__}: {error}"


def _create(
    spec: KernelSpec, provider: Provider, fence: Fence, on_progress: Callable[[EffectProgress], None]
) -> None:
    made = provider.create(spec, fence)
    found, wanted = made.labels, spec.labels
    if (found.repo, found.resource, found.digest) != (wanted.repo, wanted.resource, wanted.digest):
        # Creating adopts a kernel with the same id: it must really be this one.
        why = f"another one with this id is there, made from digest {found.digest} of {found.resource}"
        raise KernelRefused(provider=provider.capabilities().name, kernel=spec.id, why=why)
    if made.state == "starting":
        on_progress(KernelStarts())


def _drain(
    step: Step, traffic: Traffic, on_progress: Callable[[EffectProgress], None], stop: threading.Event
) -> None:
    def waits(connections: int) -> None:
        on_progress(Draining(connections))

    if not traffic.drain(step.kernel_id, step.grace, waits, stop):
        raise StillDraining


def _stop(step: Step, provider: Provider) -> None:
    try:
        seen = provider.stop(step.kernel_id, grace=step.grace, signal=step.signal)
    except KernelNotFound:
        return
    if step.stays and seen.state in LIVE:
        # What it holds is given to others now.
        raise ProviderUnavailable(provider=provider.capabilities().name, why=f"{seen.id} is still stopping")


def _with_secrets(step: Step, spec: KernelSpec, targets: ApplyTargets) -> KernelSpec:
    if spec.login is not None:
        spec = replace(spec, login=replace(spec.login, seed=targets.session_seed(spec.login.reference)))
    if not step.secrets:
        return spec
    project = ref_of(spec.labels.resource).project
    found = {name: targets.secrets.for_project(project, each) for name, each in step.secrets.items()}
    return replace(spec, secret_env={**spec.secret_env, **found})
