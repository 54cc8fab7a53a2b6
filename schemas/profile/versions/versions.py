"""Whether a profile's exact versions can work together, offline: what cannot is refused with the reason.

Each group of rules names its sources: `versions_system` (kernel, operating system), `versions_driver`
(driver, GPUs, fabric manager), `versions_containers` (engine, toolkit, CDI), `versions_storage` (GDS, RDMA,
IOMMU), `versions_gpus` (MIG, MPS), `versions_twice` (one thing, one place), `versions_ports` (one port, one
service). `on_nodes` holds the same against what machines declare to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.hardware.generations import generation_of
from schemas.problems.issues import Issue, Loc
from schemas.profile.versions import containers, duplicates, gpus, ports, storage, system
from schemas.profile.versions import driver as versions_driver
from schemas.values.envelope import Model

_GROUPS = (
    system,
    versions_driver,
    containers,
    storage,
    gpus,
    duplicates,
    ports,
)


def profile_rules(profile: Any) -> Iterator[Issue]:
    """Everything in one NodeProfile that cannot work, judged alone."""
    yield from _own(profile.spec, ("spec",))
    for group in _GROUPS:
        yield from group.rules(profile.spec)


def _own(value: object, at: Loc) -> Iterator[Issue]:
    """What the parts of a section say of themselves, in their methods `issues`."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _own(item, (*at, index))
    if not isinstance(value, Model):
        return
    for issue in getattr(value, "issues", tuple)():
        yield replace(issue, at=(*at, *issue.at))
    for name, field in type(value).model_fields.items():
        yield from _own(getattr(value, name), (*at, field.alias or name))


def unchecked(profile: Any) -> Iterator[Issue]:
    """What is accepted without being checked: GPUs that are not known here."""
    driver = profile.spec.nvidia_driver
    for index, model in enumerate(driver.gpus if driver else ()):
        at = ("spec", "nvidiaDriver", "gpus", index)
        if generation_of(model) is None:
            message = f"{model} is not a GPU that is known here: the driver is not checked against it"
            yield Issue(at, message, "write its model as nvidia-smi does", "BAI-V092")
        elif profile.spec.mig is not None and gpus.unlisted(model):
            message = f"the MIG profiles of {model} are not known here: layouts are not checked"
            yield Issue(at, message, "", "BAI-V092")
