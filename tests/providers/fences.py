"""What every provider owes a fence: it is asked when others can see the kernel, and before that starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from providers.base import KernelSpec, Provider
from schemas.problems.errors.store import LeaseLost


def lost() -> None:
    raise LeaseLost(cluster="here", token=1)


def keeps_its_promise(provider: Provider, spec: KernelSpec) -> None:
    """A kernel whose fence says no never runs and leaves nothing; one whose fence says yes is made once."""
    seen: list[tuple[str, object]] = []

    def look() -> None:
        (one,) = provider.observe().kernels
        assert one.labels == spec.labels, "what it will hold can be read"
        seen.append((one.id, one.pid or None))

    def look_and_lose() -> None:
        look()
        lost()

    with pytest.raises(LeaseLost):
        provider.create(spec, look_and_lose)
    assert seen == [(spec.id, None)], "it was there, and did not run"
    assert provider.observe().kernels == ()
    made = provider.create(spec, look)
    assert seen == [(spec.id, None)] * 2 and made.state in ("creating", "running")
    with pytest.raises(LeaseLost):
        provider.update(spec.id, replace(spec, labels=replace(spec.labels, digest="another")), lost)
    assert provider.observe().kernels[0].labels == spec.labels
    provider.remove(spec.id)
    assert provider.observe().kernels == ()
