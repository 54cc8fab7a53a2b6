"""Whether a profile's exact versions can work together, offline: what cannot is refused with the reason.

Each group of rules names its sources: `system` (kernel, operating system), `driver` (driver, GPUs, fabric
manager), `containers` (engine, toolkit, CDI), `storage` (GDS, RDMA, IOMMU), `gpus` (MIG, MPS), `duplicates`
(one thing, one place), `ports` (one port, one service). `schemas/rules/profile_rules.py` holds the same
against what machines declare to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.hardware.generations import gpu_generation
from schemas.problems.issues import Issue, Loc
from schemas.profile.versions import containers, duplicates, gpus, ports, storage, system
from schemas.profile.versions import driver as driver_rules
from schemas.values.envelope import Model

_GROUPS = (
    system,
    driver_rules,
    containers,
    storage,
    gpus,
    duplicates,
    ports,
)


def compatibility_rules(profile: Any) -> Iterator[Issue]:
    """Everything in one NodeProfile that cannot work, judged alone."""
    yield from _section_issues(profile.spec, ("spec",))
    for group in _GROUPS:
        yield from group.rules(profile.spec)


def _section_issues(value: object, at: Loc) -> Iterator[Issue]:
    """What the parts of a section say of themselves, in their methods `issues`."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _section_issues(item, (*at, index))
    if not isinstance(value, Model):
        return
    for issue in getattr(value, "issues", tuple)():
        yield replace(issue, at=(*at, *issue.at))
    for name, field in type(value).model_fields.items():
        yield from _section_issues(getattr(value, name), (*at, field.alias or name))


def unchecked_gpus(profile: Any) -> Iterator[Issue]:
    """What is accepted without being checked: GPUs that are not known here."""
    driver = profile.spec.nvidia_driver
    for index, model in enumerate(driver.gpus if driver else ()):
        at = ("spec", "nvidiaDriver", "gpus", index)
        if gpu_generation(model) is None:
            message = f"{model} is not a GPU that is known here: the driver is not checked against it"
            yield Issue(at, message, "write its model as nvidia-smi does", "BAI-V092")
        elif profile.spec.mig is not None and gpus.has_unknown_mig_profiles(model):
            message = f"the MIG profiles of {model} are not known here: layouts are not checked"
            yield Issue(at, message, "", "BAI-V092")
