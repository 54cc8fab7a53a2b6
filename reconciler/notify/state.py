"""What is known between runs: one value in the store, written only by who holds its lease. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from reconciler.notify.news import News


@dataclass(frozen=True, slots=True)
class Batch:
    """News that go out as one message, and go on doing so however often it is tried."""

    news: tuple[News, ...]
    left_out: int = 0
    """How many more there were that are not in it."""
    began: float = 0.0
    """When it was first tried."""
    tries: int = 0
    again: float = 0.0
    """Not before."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """What came of the last try."""

    at: float
    good: bool
    said: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Outbox:
    """What one Notification has to send. `times`: when messages went out, as far as its throttle asks."""

    waiting: tuple[News, ...] = ()
    left_out: int = 0
    sending: Batch | None = None
    times: tuple[float, ...] = ()
    last: DeliveryResult | None = None
    sent: int = 0
    """Messages, ever."""
    failed: int = 0
    """Tries that came to nothing."""
    lost: int = 0
    """News that nobody was told, ever."""


@dataclass(frozen=True, slots=True)
class NotifyState:
    """Of one cluster. `events` and `audit`: the newest that were read; `lasting`: by key, what holds;
    `failing`: resource → why its action failed last."""

    events: int = 0
    audit: int = 0
    commit: str = ""
    lasting: Mapping[str, News] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    boxes: Mapping[str, Outbox] = field(default_factory=dict)


def state_key(cluster: str) -> str:
    """Under which the store has it, and its lease."""
    return f"notify/{cluster}"


@functools.cache
def _state_adapter() -> TypeAdapter[NotifyState]:
    return TypeAdapter(NotifyState)


def serialize_state(state: NotifyState) -> str:
    """JSON in one normal form."""
    return _state_adapter().dump_json(state, exclude_defaults=True).decode()


def parse_state(text: str | None) -> NotifyState | None:
    """None for what is not there, or was not written by this version."""
    try:
        return _state_adapter().validate_json(text) if text else None
    except ValidationError:
        return None
