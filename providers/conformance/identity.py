"""Who a kernel is: made once, known by its labels, found by whoever looks, gone without a trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from providers.base import Labels, Limit, Provider
from providers.conformance.harness import ProviderHarness, labels_of
from providers.conformance.kernels import LISTENS, once, seen
from providers.conformance.waiting import until
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.store import LeaseLost


def hostile_labels(name: str, node: str) -> Labels:
    """What documents can bring into labels: short ones are printable, the document is any text."""
    document = '{"a":"\'\\"$(id) `id` {{.}} %s \\n ünï✓ </pre>","b":[' + ",".join(["null"] * 4000) + "]}"
    return replace(
        labels_of(name, node),
        repo="https://forge/a?b=$(id)&'\"\\{{.}}",
        generation=2**40,
        digest="f" * 64,
        protected=True,
        commit="0" * 64,
        document=document,
        placement='{"cpus":[0]}',
    )


class Identity:
    def test_every_limit_is_claimed_or_it_is_said_why_not(self, provider: Provider) -> None:
        found = provider.capabilities()
        assert found.limits | found.limits_missing.keys() == frozenset(Limit)
        for limit in frozenset(Limit) - found.limits:
            assert found.limits_missing[limit], f"why not {limit}"

    def test_creating_twice_finds_the_first(self, harness: ProviderHarness, provider: Provider) -> None:
        """By this instance or another one, which learns all that it knows from what runs."""
        spec = harness.spec("twice", LISTENS)
        assert provider.create(spec).state in ("creating", "starting", "running")
        first = once(provider, spec.id, "running")
        again = provider.create(replace(spec, command=("sh", "-c", "exit 1")))
        assert (again.state, again.started, again.restarts) == (first.state, first.started, 0)
        with closing(harness.open()) as other:
            assert other.create(spec).started == first.started
            assert once(other, spec.id, "running").labels == spec.labels
            assert sum(each.id == spec.id for each in other.observe().kernels) == 1

    def test_many_who_create_at_once_make_one(self, harness: ProviderHarness, provider: Provider) -> None:
        spec = harness.spec("many-creators", LISTENS)
        with closing(harness.open()) as other, ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda each: each.create(spec), [provider, other] * 2))
        assert {each.id for each in made} == {spec.id}
        first = once(provider, spec.id, "running")
        assert {each.started for each in made if each.started} <= {first.started}
        assert sum(each.id == spec.id for each in provider.observe().kernels) == 1

    def test_labels_are_what_was_given(self, harness: ProviderHarness, provider: Provider) -> None:
        """To the character, also for another instance and after an update, which ends nothing."""
        labels = hostile_labels("labels", harness.nodes[0])
        spec = harness.spec("labels", LISTENS, labels=labels)
        assert provider.create(spec).labels == labels
        before = once(provider, spec.id, "running")
        assert before.labels == labels
        if "labels" not in provider.capabilities().in_place:
            pytest.skip("labels are not claimed to change in place")
        changed = replace(labels, generation=7, digest="e" * 64, document='{"kind":"Session","spec":{}}')
        assert provider.update(spec.id, replace(spec, labels=changed)).labels == changed
        with closing(harness.open()) as other:
            after = once(other, spec.id, "running")
        assert after.labels == changed
        assert (after.started, after.restarts) == (before.started, before.restarts)

    def test_who_lost_the_lease_starts_nothing(self, harness: ProviderHarness, provider: Provider) -> None:
        """The fence is asked when others can see the kernel, and before that starts."""
        spec = harness.spec("fenced", LISTENS)
        looks: list[tuple[Labels, int | None]] = []

        def look() -> None:
            with closing(harness.open()) as other:
                found = seen(other, spec.id)
            assert found is not None, "others can see it"
            looks.append((found.labels, found.pid if harness.runs_programs else None))

        def look_and_lose() -> None:
            look()
            lose()

        def lose() -> None:
            raise LeaseLost(cluster="here", token=1)

        with pytest.raises(LeaseLost):
            provider.create(spec, look_and_lose)
        assert [(labels, pid or None) for labels, pid in looks] == [(spec.labels, None)]
        assert seen(provider, spec.id) is None
        _is_gone(harness, spec.id)
        assert provider.create(spec, look).state in ("creating", "starting", "running")
        assert len(looks) == 2
        with pytest.raises(LeaseLost):
            provider.update(spec.id, replace(spec, labels=replace(spec.labels, digest="another")), lose)
        found = seen(provider, spec.id)
        assert found is not None and found.labels == spec.labels

    def test_what_is_removed_leaves_no_trace(self, harness: ProviderHarness, provider: Provider) -> None:
        """Running or not, by an instance that has not made it, and however often; then it can be made
        anew."""
        spec = harness.spec("removed", LISTENS, secret_env={"TOKEN": "hush"})
        provider.create(spec)
        first = once(provider, spec.id, "running")
        with closing(harness.open()) as other:
            other.remove(spec.id)
        # What one instance does, another one hears of.
        until(lambda: seen(provider, spec.id) is None, lambda: f"it is gone: {seen(provider, spec.id)}")
        _is_gone(harness, spec.id)
        provider.remove(spec.id)
        provider.create(spec)
        again = once(provider, spec.id, "running")
        assert first.started is None or again.started is None or again.started >= first.started
        assert provider.stop(spec.id, grace=1.0).state in ("stopping", "exited")
        once(provider, spec.id, "exited")
        provider.remove(spec.id)
        assert seen(provider, spec.id) is None
        _is_gone(harness, spec.id)

    def test_what_is_not_there_is_named(self, harness: ProviderHarness, provider: Provider) -> None:
        spec = harness.spec("nobody", LISTENS)
        provider.remove(spec.id)
        for call in (
            lambda: provider.stop(spec.id, grace=1.0),
            lambda: provider.update(spec.id, spec),
            lambda: list(provider.logs(spec.id)),
            lambda: provider.execute(spec.id, ("true",)),
        ):
            with pytest.raises(KernelNotFound, match=spec.id):
                call()


def _is_gone(harness: ProviderHarness, kernel_id: str) -> None:
    until(lambda: not harness.left(kernel_id), lambda: f"nothing is left: {harness.left(kernel_id)}")
