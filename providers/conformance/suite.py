"""The tests as one class.

    @pytest.fixture(scope="class")
    def harness(tmp_path_factory):
        return MyHarness(tmp_path_factory.mktemp("mine"))

    class TestMine(ProviderConformance):
        pass

What a provider does not claim is skipped, by the name of what is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

_PARTS = ("kernels", "identity", "ends", "output", "commands", "extras", "files", "terminals", "failures")
pytest.register_assert_rewrite(*(f"providers.conformance.{part}" for part in _PARTS))

from providers.base import Provider  # noqa: E402
from providers.conformance.commands import RunsCommands  # noqa: E402
from providers.conformance.ends import Ends  # noqa: E402
from providers.conformance.extras import Extras  # noqa: E402
from providers.conformance.failures import Failures  # noqa: E402
from providers.conformance.files import Files  # noqa: E402
from providers.conformance.harness import ProviderHarness, is_of_the_tests  # noqa: E402
from providers.conformance.identity import Identity  # noqa: E402
from providers.conformance.kernels import Commands, StartedKernels  # noqa: E402
from providers.conformance.output import Output  # noqa: E402
from providers.conformance.terminals import Terminals  # noqa: E402
from providers.conformance.waiting import until  # noqa: E402


class ProviderConformance(Failures, Terminals, Files, Extras, RunsCommands, Output, Ends, Identity):
    """Inherit it, beside a fixture `harness` of scope `class`, `module` or `session`."""

    @classmethod
    @pytest.fixture(scope="class")
    def provider(cls, harness: ProviderHarness) -> Iterator[Provider]:
        """Whoever looks on, while others come and go. At the end nothing is left of any kernel."""
        with closing(harness.open()) as opened:
            _clear(harness, opened)
            yield opened
            _clear(harness, opened)

    @classmethod
    @pytest.fixture(scope="class")
    def started(cls, harness: ProviderHarness, provider: Provider) -> Iterator[StartedKernels]:
        """Kernels that several tests look at."""
        found = StartedKernels(harness, provider)
        yield found
        found.wait()

    @pytest.fixture
    def commands(self, provider: Provider, capfdbinary: pytest.CaptureFixture[bytes]) -> Commands:
        return Commands(provider, capfdbinary)


def _clear(harness: ProviderHarness, provider: Provider) -> None:
    """Away with the kernels of the tests, and of tests that were killed; others are none of theirs."""
    names = [each.id for each in provider.observe().kernels if is_of_the_tests(each.id)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(provider.remove, names))
    for name in names:
        until(lambda: not harness.left(name), lambda: f"nothing is left: {harness.left(name)}")  # noqa: B023
