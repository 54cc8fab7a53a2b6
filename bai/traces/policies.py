"""The policies that one run compares, from the command's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast, get_args

from planner.model.types import GroupInfo, NumaPolicy
from schemas.files.yaml_scalars import parse_scalar
from schemas.problems.errors.command import CommandError

MOST_POLICIES = 12
"""Policies that one run compares: more curves cannot be told apart."""
DECLARED = "as declared"


@dataclass(frozen=True, slots=True)
class Trial:
    """A name for a person, and the groups under this policy."""

    name: str
    groups: tuple[GroupInfo, ...]


def policy_trials(
    groups: Sequence[GroupInfo],
    queues: str | None,
    selections: str | None,
    numa: str | None,
    known: Mapping[str, Sequence[str]],
) -> list[Trial]:
    """One trial for each combination of what the options list; what is not given stays as declared.

    `known`: `queue` and `selection` → names of the policies that there are. Raises CommandError.
    """
    parts = [
        _parse_names("--queue", queues, known["queue"]),
        _parse_names("--selection", selections, known["selection"]),
        _parse_names("--numa", numa, get_args(NumaPolicy)),
    ]
    combined = [tuple(one) for one in product(*parts)]
    if len(combined) > MOST_POLICIES:
        raise CommandError(
            why=f"{len(combined)} policies are too many to compare", hint=f"at most {MOST_POLICIES}"
        )
    found = []
    for queue, selection, policy in combined:
        given = [one for one in (queue, selection, policy) if one]
        changed = tuple(_with_policies(group, queue, selection, policy) for group in groups)
        found.append(Trial(" + ".join(given) or DECLARED, changed))
    return found


def _parse_names(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    if text is None:
        return [""]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        plain_name = name.partition(":")[0] if option == "--queue" else name
        if plain_name not in known:
            raise CommandError(
                why=f"{option}: there is no policy {name or '(empty)'}", hint=f"known are {', '.join(known)}"
            )
    return list(dict.fromkeys(names))


def _with_policies(group: GroupInfo, queue: str, selection: str, numa: str) -> GroupInfo:
    if queue:
        name, *options = queue.split(":")
        group = replace(
            group, queue=name, queue_options={**group.queue_options, **_parse_queue_options(queue, options)}
        )
    return replace(
        group,
        selection=selection or group.selection,
        numa=cast(NumaPolicy, numa) if numa else group.numa,
    )


def _parse_queue_options(queue: str, texts: Sequence[str]) -> dict[str, object]:
    """`maxSkips=0` and `backfill` as a group's `queueOptions` would hold them."""
    found: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        try:
            found[key] = parse_scalar(value) if equals else True
        except ValueError as error:
            raise CommandError(why=f"--queue {queue}: {key}: {error}") from None
        if key == "backfill" and not isinstance(found[key], bool):
            raise CommandError(why=f"--queue {queue}: backfill is true or false")
        if key in ("maxSkips", "pendingTimeout", "halfLife"):
            number = found[key]
            if isinstance(number, bool) or not isinstance(number, int | None) or (number or 0) < 0:
                raise CommandError(why=f"--queue {queue}: {key} is a whole number from 0 up")
        elif key != "backfill":
            raise CommandError(
                why=f"--queue {queue}: {key or '(empty)'} is no option",
                hint="known are maxSkips, backfill, pendingTimeout, halfLife",
            )
    return found
