"""Actual from the store and the provider: the store says what was decided, the provider what runs, and reality wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from providers.base import Provider
from reconciler.actual import Actual
from reconciler.plan import Plan
from schemas.hardware.model import Hardware

if TYPE_CHECKING:
    from reconciler.store import Store


def observe(
    store: Store,
    provider: Provider | None,
    cluster: str,
    *,
    repo: str,
    hardware: Mapping[str, Hardware] | None = None,
) -> Actual:
    """What is recorded and what runs; without a provider, only what is recorded. Never raises for what cannot be observed: `complete` is False then."""
    raise NotImplementedError


def current_basis(store: Store, provider: Provider, plan: Plan) -> str:
    """The basis as it is now; apply compares it with `plan.basis` under its lease."""
    raise NotImplementedError
