"""What goes wrong: whoever creates is killed, and nodes are out of reach."""

from __future__ import annotations

from contextlib import closing

import pytest

from providers.base import KernelSpec, Observation, Observed, Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import LISTENS, once, output, said, seen
from providers.conformance.waiting import until
from schemas.problems.errors.provider import ProviderUnavailable


class Failures:
    def test_whoever_is_killed_while_he_creates_leaves_what_the_next_one_finishes(
        self, harness: ProviderHarness, provider: Provider
    ) -> None:
        """Or takes back: what is there has its labels, runs once and no other program, and goes without a
        trace."""
        count = harness.kills + 3
        specs = [harness.spec(f"killed{number}", f"echo begun; {LISTENS}") for number in range(count)]
        for number, spec in enumerate(harness.killed_creates(specs)):
            found = provider.observe()
            assert found.complete and not found.unlabelled, (found.errors, found.unlabelled)
            one = seen(provider, spec.id)
            if one is not None:
                assert one.labels == spec.labels and one.state in ("creating", "starting", "running"), one
            if number % 2:
                assert provider.create(spec).state in ("creating", "starting", "running")
                once(provider, spec.id, "running")
                assert sum(each.id == spec.id for each in provider.observe().kernels) == 1
                if harness.runs_programs:
                    said(provider, spec.id, b"ready\n")
                    assert output(provider, spec.id) == b"begun\nready\n"
                provider.remove(spec.id)
                assert seen(provider, spec.id) is None
                until(
                    lambda: not harness.left(spec.id),  # noqa: B023
                    lambda: f"nothing is left of {number}: {harness.left(spec.id)}",  # noqa: B023
                )
                continue
            # An engine may still be at what it was asked by who is dead.
            until(
                lambda: _is_taken_away(harness, provider, spec.id),  # noqa: B023
                lambda: f"nothing is left of {number}: {harness.left(spec.id)}",  # noqa: B023
            )

    def test_what_cannot_be_seen_is_not_said_to_be_gone(
        self, harness: ProviderHarness, provider: Provider
    ) -> None:
        """Whoever asks for something there is told to come again, and then it is what it was."""
        node = harness.nodes[-1]
        cut = harness.cut(node)
        if cut is None:
            pytest.skip("no node can be cut off here")
        spec, other = harness.spec("cut", LISTENS, node=node), harness.spec("cut-other", LISTENS, node=node)
        provider.create(spec)
        before = once(provider, spec.id, "running")
        with cut, closing(harness.open()) as fresh:
            until(lambda: _is_missed(provider.observe(), node), "it is noticed")
            for asked in (provider, fresh):
                found = asked.observe()
                assert _is_missed(found, node), found
                for call in (
                    lambda: asked.create(other),  # noqa: B023
                    lambda: asked.update(spec.id, spec),  # noqa: B023
                    lambda: asked.stop(spec.id, grace=1.0),  # noqa: B023
                    lambda: asked.remove(spec.id),  # noqa: B023
                    lambda: list(asked.logs(spec.id)),  # noqa: B023
                    lambda: asked.execute(spec.id, ("true",)),  # noqa: B023
                ):
                    with pytest.raises(ProviderUnavailable) as refused:
                        call()
                    assert refused.value.retryable
        until(lambda: not _is_missed(provider.observe(), node), "it is reached again")
        after = once(provider, spec.id, "running")
        assert (after.labels, after.started, after.restarts) == (before.labels, before.started, 0)
        assert seen(provider, other.id) is None
        with closing(harness.open()) as fresh:
            again = until(lambda: _created(fresh, spec), "who comes again is heard")
        assert again.started == before.started


def _is_taken_away(harness: ProviderHarness, provider: Provider, kernel_id: str) -> bool:
    provider.remove(kernel_id)
    return seen(provider, kernel_id) is None and not harness.left(kernel_id)


def _created(provider: Provider, spec: KernelSpec) -> Observed | None:
    """None where one has to come again: a node that is back may count as away once more."""
    try:
        return provider.create(spec)
    except ProviderUnavailable:
        return None


def _is_missed(found: Observation, node: str) -> bool:
    return node in found.unreachable or not found.complete
