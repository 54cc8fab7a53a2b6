"""What one document must fulfil beyond the types of its fields."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemas.kinds.cluster import PROVIDERS
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean
from schemas.rules.machine_rules import duplicate_rules, engine_rules, hardware_rules, reserved_rules
from schemas.rules.plugin_rules import plugin_rules
from schemas.rules.services.service_rules import label_rules, service_rules
from schemas.rules.system_folders import is_of_system
from schemas.values.envelope import OVERRIDE, PROTECT, Resource
from schemas.values.quantities import format_memory

if TYPE_CHECKING:  # Who checks a few kinds loads no others.
    from schemas.kinds.image import Image, Registry
    from schemas.kinds.node import MachineSpec, NodePool
    from schemas.kinds.notification import Notification
    from schemas.kinds.parts.resources import Resources
    from schemas.kinds.policy import Policy
    from schemas.kinds.secret_store import SecretStore
    from schemas.kinds.session import Session
    from schemas.kinds.session_template import SessionTemplate
    from schemas.profile import NodeProfile

_RESERVED_PATHS = frozenset({"", "proc", "sys", "dev", "etc", "usr", "bin", "lib"})
"""Paths that no volume may cover."""


def check_document(resource: Resource) -> Iterator[Issue]:
    """Every rule that this document breaks, judged alone."""
    yield from _annotation_rules(resource)
    yield from label_rules(resource)
    rules = _RULES.get(resource.kind)
    if rules:
        yield from rules(resource)
    yield from plugin_rules(resource)


def _annotation_rules(resource: Resource) -> Iterator[Issue]:
    annotations = resource.metadata.annotations
    value = annotations.get(PROTECT)
    if value not in (None, "true", "false"):
        yield Issue(
            ("metadata", "annotations", PROTECT),
            f"'{value}' is neither true nor false",
            'write "true"',
            "BAI-V030",
        )
    if any(key.startswith(OVERRIDE) for key in annotations):
        from schemas.rules.policy_rules import override_rules

        yield from override_rules(resource)


def _cluster_rules(cluster: Any) -> Iterator[Issue]:
    spec = cluster.spec
    yield from engine_rules(spec.docker)
    for index, root in enumerate(spec.kubernetes.host_path_roots):
        if is_of_system(root):
            hint = "give a folder of its own, such as /srv/bai"
            at: Loc = ("spec", "kubernetes", "hostPathRoots", index)
            yield Issue(at, f"'{root}' belongs to the system, or holds what does", hint, "BAI-V050")
    for name in PROVIDERS:
        if name in spec.model_fields_set and name != spec.provider:
            hint = f"did you mean provider: {name}?"
            yield Issue(
                ("spec", name),
                f"options of {name}, but the provider is {spec.provider}",
                hint,
                "BAI-V034",
                key=True,
            )
    if spec.options and spec.provider in PROVIDERS:
        yield Issue(
            ("spec", "options"),
            "options of a plugin",
            f"write them under '{spec.provider}'",
            "BAI-V034",
            key=True,
        )


def _machine_rules(resource: Any) -> Iterator[Issue]:
    spec: MachineSpec = resource.spec
    yield from engine_rules(spec.docker)
    if spec.hardware is not None and spec.hardware_from is not None:
        yield Issue(
            ("spec", "hardwareFrom"),
            "hardware and hardwareFrom",
            "leave one of them out",
            "BAI-V034",
            key=True,
        )
    if spec.hardware is not None:
        yield from hardware_rules(spec.hardware, ("spec", "hardware"))
        yield from reserved_rules(spec, spec.hardware)


def _pool_rules(pool: Any) -> Iterator[Issue]:
    from schemas.repository.node_ranges import pool_nodes

    yield from _machine_rules(pool)
    try:
        nodes = pool_nodes(pool)
    except ValueError as error:
        at = "addressPattern" if "addresses" in str(error) or _has_sound_names(pool) else "namePattern"
        yield Issue(("spec", at), str(error), "write ranges as gpu-[001-128]", "BAI-V051")
        return
    if not nodes:
        yield Issue(("spec", "exclude"), "no node is left", code="BAI-V051")
    unknown = set(pool.spec.exclude) - set(expand_pool_names(pool))
    for index, name in enumerate(pool.spec.exclude):
        if name in unknown:
            yield Issue(
                ("spec", "exclude", index), f"'{name}' is not one of the pool's names", code="BAI-V040"
            )


def expand_pool_names(pool: NodePool) -> tuple[str, ...]:
    """Every name of the pattern, excluded ones too."""
    from schemas.repository.node_ranges import expand_ranges

    return expand_ranges(pool.spec.name_pattern)


def _has_sound_names(pool: NodePool) -> bool:
    try:
        names = expand_pool_names(pool)
    except ValueError:
        return False
    return len(set(names)) == len(names) and pool.spec.address_pattern is not None


def _group_rules(group: Any) -> Iterator[Issue]:
    spec = group.spec
    if 1000 % spec.fractional.quantum:
        near = min(
            (n for n in range(1, 1001) if 1000 % n == 0), key=lambda n: abs(n - spec.fractional.quantum)
        )
        message = "a whole device cannot be divided into equal steps of this size"
        yield Issue(("spec", "fractional", "quantum"), message, f"did you mean {near / 1000:g}?", "BAI-V032")
    scratch = spec.scratch
    if scratch.default and scratch.max and scratch.default > scratch.max:
        message = (
            f"{format_memory(scratch.default)} for each is more than {format_memory(scratch.max)} at most"
        )
        yield Issue(("spec", "scratch", "default"), message, "lower default or raise max", "BAI-V032")
    for index, kept in enumerate(spec.reservations):
        if kept.ends_at <= kept.starts_at:
            yield Issue(
                ("spec", "reservations", index, "endsAt"), "it ends before it begins", code="BAI-V050"
            )
    yield from duplicate_rules(
        (("spec", "reservations", i, "name"), kept.name) for i, kept in enumerate(spec.reservations)
    )


def _quota_rules(quota: Any) -> Iterator[Issue]:
    spec = quota.spec
    total, each = spec.total.slots, spec.per_session.slots
    for slot in sorted(total.keys() & each.keys()):
        if each[slot] > total[slot]:
            name = "memory" if slot == "mem" else slot
            yield Issue(
                ("spec", "perSession", name),
                "one session may not have more than all together",
                code="BAI-V032",
            )
    if spec.borrowing is not None and spec.cohort is None:
        yield Issue(
            ("spec", "borrowing"), "borrowing needs a cohort", "name the cohort", "BAI-V034", key=True
        )


def _storage_host_rules(host: Any) -> Iterator[Issue]:
    root = host.spec.root
    if root is not None and posixpath.normpath(root).strip("/") in {
        "",
        "etc",
        "proc",
        "sys",
        "dev",
        "boot",
        "usr",
        "bin",
        "sbin",
        "lib",
        "run",
        "root",
    }:
        yield Issue(
            ("spec", "root"),
            f"'{root}' belongs to the system",
            "give a folder of its own",
            "BAI-V050",
        )


def _session_rules(session: Any) -> Iterator[Issue]:
    yield from _layout_rules(session)
    yield from _amount_rules(session.spec.resources, ("spec", "resources"))
    for role, own in session.spec.cluster.per_role.items():
        if own.resources is not None:
            yield from _amount_rules(own.resources, ("spec", "cluster", "perRole", role, "resources"))
    yield from _list_rules(session)
    yield from _time_rules(session)


def _layout_rules(session: Session) -> Iterator[Issue]:
    layout = session.spec.cluster
    if layout.roles.get("main") != 1:
        yield Issue(
            ("spec", "cluster", "roles"), "the role main exists exactly once", "write main: 1", "BAI-V050"
        )
    for role in layout.per_role:
        if role not in layout.roles:
            at = ("spec", "cluster", "perRole", role)
            yield Issue(
                at, f"there is no role '{role}'", did_you_mean(role, layout.roles), "BAI-V040", key=True
            )


def _amount_rules(resources: Resources, at: Loc) -> Iterator[Issue]:
    slots = resources.accelerators
    for vendor in sorted({slot.partition(".")[0] for slot in slots if slots[slot]}):
        used = [slot for slot in slots if slot.startswith(vendor + ".") and slots[slot]]
        if f"{vendor}.shares" in used and len(used) > 1:
            other = next(slot for slot in used if slot != f"{vendor}.shares")
            message = f"{vendor}.shares and {other}: a container gets whole devices or a part of one"
            yield Issue(
                (*at, f"{vendor}.shares"),
                message,
                f"leave out {other} or {vendor}.shares",
                "BAI-V034",
                key=True,
            )
    if resources.shm and resources.memory and resources.shm > resources.memory:
        shm, memory = format_memory(resources.shm), format_memory(resources.memory)
        message = f"{shm} of shared memory within {memory} of memory"
        yield Issue((*at, "shm"), message, "shared memory counts as memory; raise memory", "BAI-V032")


def _list_rules(session: Session) -> Iterator[Issue]:
    spec = session.spec
    yield from duplicate_rules(
        (("spec", "mounts", i, "path"), mount.path.rstrip("/")) for i, mount in enumerate(spec.mounts)
    )
    for index, mount in enumerate(spec.mounts):
        if mount.path.strip("/") in _RESERVED_PATHS:
            message = f"'{mount.path}' is the container's own"
            yield Issue(("spec", "mounts", index, "path"), message, "give another path", "BAI-V050")
    yield from duplicate_rules((("spec", "ports", i, "name"), port.name) for i, port in enumerate(spec.ports))
    yield from duplicate_rules((("spec", "ports", i, "port"), port.port) for i, port in enumerate(spec.ports))
    yield from duplicate_rules(
        (("spec", "secrets", i, "env"), secret.env) for i, secret in enumerate(spec.secrets)
    )
    yield from duplicate_rules(
        (("spec", "dependsOn", i), identity) for i, identity in enumerate(spec.depends_on)
    )
    for index, secret in enumerate(spec.secrets):
        if secret.env in spec.env:
            yield Issue(
                ("spec", "secrets", index, "env"),
                f"'{secret.env}' stands in env too",
                "leave one out",
                "BAI-V034",
            )


def _time_rules(session: Session) -> Iterator[Issue]:
    spec = session.spec
    if spec.timeout == 0:
        yield Issue(
            ("spec", "timeout"),
            "a session that may run no time at all",
            "leave it out for no limit",
            "BAI-V032",
        )
    if spec.restart.max and spec.restart.policy == "never":
        message = "restarts are counted, but the policy is never"
        yield Issue(("spec", "restart", "max"), message, "did you mean policy: on-failure?", "BAI-V034")
    if spec.type == "batch" and spec.restart.policy == "always":
        message = "a batch session that always restarts never ends"
        yield Issue(("spec", "restart", "policy"), message, "did you mean on-failure?", "BAI-V034")


def _registry_rules(registry: Registry) -> Iterator[Issue]:
    from schemas.rules.image_rules import registry_rules

    yield from registry_rules(registry)


def _image_rules(image: Image) -> Iterator[Issue]:
    from schemas.rules.image_rules import image_rules

    yield from image_rules(image)


def _profile_rules(profile: NodeProfile) -> Iterator[Issue]:
    from schemas.profile.versions.compatibility import compatibility_rules

    yield from compatibility_rules(profile)


def _store_rules(store: SecretStore) -> Iterator[Issue]:
    from schemas.rules.secret_rules import store_rules

    yield from store_rules(store)


def _policy_rules(policy: Policy) -> Iterator[Issue]:
    from schemas.rules.policy_rules import policy_rules

    yield from policy_rules(policy)


def _template_rules(template: SessionTemplate) -> Iterator[Issue]:
    from schemas.templates.rendering import template_issues  # Jinja, which few repositories need.

    yield from template_issues(template.spec)


def _notification_rules(notification: Notification) -> Iterator[Issue]:
    from schemas.rules.notification_rules import notification_rules  # Jinja, which few repositories need.

    yield from notification_rules(notification.spec)


_RULES: Mapping[str, Callable[[Any], Iterator[Issue]]] = {
    "Cluster": _cluster_rules,
    "Node": _machine_rules,
    "NodePool": _pool_rules,
    "ResourceGroup": _group_rules,
    "Quota": _quota_rules,
    "StorageHost": _storage_host_rules,
    "Session": _session_rules,
    "Service": service_rules,
    "Registry": _registry_rules,
    "Image": _image_rules,
    "NodeProfile": _profile_rules,
    "SessionTemplate": _template_rules,
    "Notification": _notification_rules,
    "SecretStore": _store_rules,
    "Policy": _policy_rules,
}
