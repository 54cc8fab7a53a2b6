"""The images that kernels are created from, and who fetches them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from planner.model.types import NodeInfo
from providers.base import KernelSpec
from reconciler.plan.context import PlanContext
from reconciler.plan.images.pinning import image_document
from reconciler.values.sides import Pull
from schemas.kinds.image import MACHINES, PullPolicy
from schemas.values.image_reference import ImageReference, parse_reference


def session_pulls(context: PlanContext, specs: Iterable[KernelSpec]) -> tuple[Pull, ...]:
    """The images that these kernels are created from, each once per node; none where nobody pulls."""
    if context.actual.capabilities is None or not context.actual.capabilities.pulls:
        return ()
    wanted = {(spec.labels.node, spec.image) for spec in specs if spec.image}
    found = (_pull_for_session(context, node, image) for node, image in sorted(wanted))
    return tuple(pull for pull in found if pull is not None)


def _pull_for_session(context: PlanContext, node: str, text: str) -> Pull | None:
    image = image_document(context, text)
    policy: PullPolicy = image.spec.pull_policy if image else "missing"
    if policy == "never":
        return None
    return image_pull(context, node, text, policy, machine=node_architecture(context.nodes.get(node)))


def image_pull(context: PlanContext, node: str, text: str, policy: PullPolicy, *, machine: str) -> Pull:
    reference = context.desired.repository.images.resolve(text)
    registry = context.desired.repository.images.registry_of(reference)
    login = registry.spec.credentials if registry else None
    return Pull(
        node=node,
        image=text,
        policy="always" if policy == "always" else "missing",
        size=_transfer_size(context, reference, machine),
        registry=reference.domain if login else "",
        username=login.username or "" if login else "",
        username_from=login.username_from or "" if login else "",
        password_from=login.password_from if login else "",
    )


def _transfer_size(context: PlanContext, reference: ImageReference, machine: str) -> int:
    names = {linux: name for name, linux in MACHINES.items()}
    for facts in context.actual.images.values():
        known = parse_reference(facts.reference)
        if known == reference or (reference.digest and known.at(facts.digest) == reference):
            return facts.size(names.get(machine, machine))
    return 0


def node_architecture(node: NodeInfo | None) -> str:
    return node.hardware.architecture if node else ""
