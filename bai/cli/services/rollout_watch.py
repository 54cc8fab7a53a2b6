"""A rollout as it goes on: one line for each change, until it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bai.render.humanize import clean
from bai.render.plan.services import rollout_line
from reconciler.values.services.status import ServiceStatus

if TYPE_CHECKING:
    from bai.settings import Settings

PAUSE = 2.0
"""Seconds between looks."""
Look = Callable[[], ServiceStatus | None]
"""How the service stands now; None where no plan has come to it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How waiting ended. `why`: what to tell where it did not end well."""

    good: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Timer:
    """Seconds that only go forward, and a sleep in them."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


SYSTEM_TIMER = Timer()


def service_look(settings: Settings, name: str) -> Look:
    """Asks the server in use, else the repository here. It raises BaiError."""
    from bai.cli.reading import remote_cluster

    remote = remote_cluster(settings)
    if remote is not None:
        server = remote.client.server
        return lambda: parse_status(remote.service(name), server)

    def look() -> ServiceStatus | None:
        from bai.cli.reading import read
        from bai.queries.models import GetQuery

        query = GetQuery.of(kind="Service", name=name, form="json")
        return parse_status(read(settings, query).document["items"][0], "")

    return look


def parse_status(item: Mapping[str, Any], server: str) -> ServiceStatus | None:
    """Of a service as `bai get --format json` has it. Raises ServerError."""
    from pydantic import TypeAdapter, ValidationError

    from schemas.problems.errors.server import ServerError

    told = item.get("status")
    if told is None:
        return None
    try:
        value = {**told, "service": item["id"], "replicas": item["replicas"]}
        return TypeAdapter(ServiceStatus).validate_python(value)
    except (ValidationError, TypeError, KeyError):
        why = "its answer about a service is not as this version of bai knows it"
        raise ServerError(server=server, why=why) from None


def follow_rollout(
    look: Look, say: Callable[[str], None], *, timeout: float | None = None, timer: Timer = SYSTEM_TIMER
) -> Outcome:
    """Until it is complete or given up, or `timeout` seconds are over. Raises what looking raises."""
    end = None if timeout is None else timer.now() + timeout
    last = ""
    while True:
        status = look()
        line = status_line(status)
        if line != last:
            say(line)
            last = line
        outcome = outcome_of(status)
        if outcome is not None:
            return outcome
        left = PAUSE if end is None else min(PAUSE, end - timer.now())
        if left <= 0:
            return Outcome(False, "the time is over, and the rollout is not")
        timer.sleep(left)


def status_line(status: ServiceStatus | None) -> str:
    if status is None:
        return "no plan has come to it yet"
    line = rollout_line(status)
    return f"{line.service}  {line.text}"


def outcome_of(status: ServiceStatus | None) -> Outcome | None:
    """None while it goes on. Where several generations are kept, it is over when all that run are ready."""
    match status.phase if status is not None else "":
        case "complete":
            return Outcome(True)
        case "failed":
            assert status is not None
            why = clean(status.why)
            if status.target != status.latest and why:  # It tells of the generation as well.
                return Outcome(False, why)
            told = f"generation {clean(status.latest)} was given up"
            return Outcome(False, f"{told}: {why}" if why else told)
        case "split":
            assert status is not None
            ready = status.count("ready")
            return Outcome(True) if ready == len(status.replicas) >= status.wanted else None
        case _:
            return None
