"""What a service must fulfil alone, and what no document of people may say of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas.problems.issues import Issue
from schemas.rules.machine_rules import duplicate_rules
from schemas.rules.services.autoscaling_rules import autoscaling_rules
from schemas.values.envelope import GENERATION_LABEL, SERVICE_LABEL, Resource

LONGEST_NAME = 49
"""Characters of a service's name: a replica's has `-<8 digits>-<4 digits>` more, and at most 63."""
_WHOLE = 100


def service_rules(service: Any) -> Iterator[Issue]:
    """Every rule that a service breaks, whatever its replicas are."""
    yield from _name_rules(service)
    yield from autoscaling_rules(service)
    spec = service.spec
    if not spec.update.surge and not spec.update.unavailable:
        message = "with no replica more and none less than all, none can be updated"
        yield Issue(("spec", "update", "surge"), message, "write surge: 1, or unavailable: 1", "BAI-V034")
    if spec.traffic:
        yield from duplicate_rules(
            (("spec", "traffic", index, "generation"), part.generation)
            for index, part in enumerate(spec.traffic)
        )
        total = sum(part.weight for part in spec.traffic)
        if total != _WHOLE:
            message = f"the weights add up to {total}"
            yield Issue(("spec", "traffic"), message, f"they are parts of {_WHOLE}", "BAI-V032")


def _name_rules(service: Resource) -> Iterator[Issue]:
    if len(service.name) > LONGEST_NAME:
        message = f"{len(service.name)} characters, and each replica's name has 14 more"
        hint = f"give it a name of at most {LONGEST_NAME} characters"
        yield Issue(("metadata", "name"), message, hint, "BAI-V033")


def label_rules(resource: Resource) -> Iterator[Issue]:
    """The labels that say whose replica a session is are bai's: nobody passes a session off as one."""
    for key in (SERVICE_LABEL, GENERATION_LABEL):
        if key in resource.metadata.labels:
            message = f"the label {key} is set by bai alone, on the replicas of services"
            yield Issue(("metadata", "labels", key), message, "take another label", "BAI-V050", key=True)
