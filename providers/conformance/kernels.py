"""Kernels of the tests: those that many tests look at, and words for looking at one."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from providers.abilities import OpensTerminals
from providers.base import Capabilities, KernelSpec, Limit, Observed, Provider, RestartRule
from providers.conformance.harness import ProviderHarness
from providers.conformance.waiting import until
from schemas.problems.errors.provider import ProviderError

MIB = 1 << 20
LISTENS = "echo ready; while :; do sleep 1000 & wait $!; done"
WAITS = "mkfifo go 2>/dev/null; read -r _ <go"
"""Until it is let go. A pipe computes nothing meanwhile."""
WORKS = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
CONSOLE = """echo ready
while read -r line; do
    case $line in
    size) stty size ;;
    end) exit 7 ;;
    *) echo "got <$line>" ;;
    esac
done"""
"""A main process that answers each line that is typed."""
WORDS = ("it's", '"$HOME" `id`', "$(HOME) $$x", "%s\\n \\", "a\nb\tc", "-e", "", "ünïcödé ✓", "*", "{{.ID}}")
"""Of a command and an environment: what shells, formats and templates would each make something else of."""


def seen(provider: Provider, kernel_id: str) -> Observed | None:
    """A kernel as it is observed; None when it is not."""
    return next((each for each in provider.observe().kernels if each.id == kernel_id), None)


def once(provider: Provider, kernel_id: str, *states: str) -> Observed:
    """The kernel as soon as it is in one of these states."""

    def there() -> Observed | None:
        found = seen(provider, kernel_id)
        return found if found is not None and found.state in states else None

    return until(there, lambda: f"{kernel_id} is {' or '.join(states)}: {seen(provider, kernel_id)}")


def ending(found: Observed | None) -> tuple[object, ...]:
    """What stays of a kernel that has ended, whoever looks and when."""
    assert found is not None, "its record stays"
    times = (found.created, found.started, found.finished)
    return (found.id, found.labels, found.state, found.exit_code, found.reason, found.restarts, *times)


def output(provider: Provider, kernel_id: str) -> bytes:
    return b"".join(provider.logs(kernel_id))


def said(provider: Provider, kernel_id: str, text: bytes) -> None:
    """Until it is in the kernel's output."""
    until(lambda: text in output(provider, kernel_id), lambda: f"{text!r} in {output(provider, kernel_id)!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and what it wrote."""

    code: int
    out: bytes
    err: bytes


class Commands:
    """Runs commands in kernels, and catches what would be shown."""

    def __init__(self, provider: Provider, shown: pytest.CaptureFixture[bytes]) -> None:
        self._provider = provider
        self._shown = shown

    def run(self, kernel_id: str, *argv: str, text: bytes | None = None) -> Outcome:
        self._shown.readouterr()
        with tempfile.TemporaryFile() as typed:
            typed.write(text or b"")
            typed.seek(0)
            code = self._provider.execute(kernel_id, argv, stdin=None if text is None else typed)
        return Outcome(code, *self._shown.readouterr())


def claims(provider: Provider, limit: Limit, node: str) -> bool:
    """Whether the provider says that it enforces a limit on a node."""
    found = provider.capabilities()
    return limit in found.limits and node not in found.missing_on.get(limit, ())


def require_limit(provider: Provider, limit: Limit, node: str) -> None:
    """Skips the test where the limit is not claimed."""
    if not claims(provider, limit, node):
        why = provider.capabilities().limits_missing.get(limit, f"not on {node}")
        pytest.skip(f"the limit {limit} is not claimed: {why}")


def require_ability(provider: Provider, ability: type) -> None:
    """Skips the test where the provider has it not."""
    if not isinstance(provider, ability):
        pytest.skip(f"the ability {ability.__name__} is not claimed")


def require_programs(harness: ProviderHarness) -> None:
    """Skips the test where nothing runs."""
    if not harness.runs_programs:
        pytest.skip("running programs is not claimed")


class StartedKernels:
    """Those that tests share, all begun at once when the first is asked for: most of a start is waiting."""

    def __init__(self, harness: ProviderHarness, provider: Provider) -> None:
        self.provider = provider
        found = provider.capabilities()
        self._specs = dict(_specs(harness, provider, found)) if harness.runs_programs else {}
        pool = ThreadPoolExecutor(8)
        self._made: Mapping[str, Future[Observed]] = {
            name: pool.submit(provider.create, spec) for name, spec in self._specs.items()
        }
        pool.shutdown(wait=False)
        self._gone_on = False

    def get(self, name: str) -> KernelSpec:
        """One that has been made. Raises ProviderError where it could not be."""
        self._made[name].result()
        return self._specs[name]

    def ready(self, name: str) -> KernelSpec:
        """One whose program says so."""
        spec = self.get(name)
        said(self.provider, spec.id, b"ready")
        return spec

    def ended(self, name: str) -> Observed:
        """One that ends by itself."""
        spec = self.get(name)
        if name == "ends" and not self._gone_on:
            # Output and errors have a way of their own each: what was written before comes first once it is
            # there.
            said(self.provider, spec.id, b"two\n")
            self.let_go(name)
            self._gone_on = True
        return once(self.provider, spec.id, "exited", "lost")

    def let_go(self, name: str) -> None:
        """Write where a kernel waits. The command may end with the kernel, which goes on then."""
        with contextlib.suppress(ProviderError):
            self.provider.execute(self.get(name).id, ("sh", "-c", "echo >go"))

    def wait(self) -> None:
        """For the last of them to have been made, or not."""
        for each in self._made.values():
            each.exception()


def _specs(
    harness: ProviderHarness, provider: Provider, found: Capabilities
) -> Iterator[tuple[str, KernelSpec]]:
    def spec(name: str, script: str, *words: str, **fields: object) -> tuple[str, KernelSpec]:
        return name, harness.spec(name, script, *words, **fields)

    server = harness.echo_server.format(port=harness.port)
    yield spec("runs", f"{server} & {LISTENS}", env={"A": "1"}, secret_env={"B": "it's $2\n"})
    yield spec("busy", f"mkfifo go; echo ready; while read -r _ <go; do {WORKS}; done")
    yield spec("ends", f"echo one; echo two; {WAITS}; echo three >&2; exit 3")
    hostile = {f"HOSTILE_{number}": word for number, word in enumerate(WORDS)}
    shown = " ".join(f'"${name}"' for name in hostile)
    yield spec("hostile", f"printf '%s|' \"$@\" {shown}; echo end", *WORDS, env=hostile)
    yield spec("gate", f"echo ready; {WAITS}; echo after")
    yield spec("graceful", f"trap 'echo saved; exit 4' TERM; {LISTENS}", stop_grace=60.0)
    yield spec("interrupt", f"trap 'exit 9' INT; {LISTENS}", stop_signal="SIGINT", stop_grace=60.0)
    yield spec("notice", f"trap 'echo saved; exit 7' USR1; {LISTENS}", stop_grace=60.0)
    yield spec("patient", f"trap 'echo saved' USR1; trap 'echo bye; exit 5' TERM; {LISTENS}", stop_grace=60.0)
    yield spec("deaf", f"trap '' TERM; {LISTENS}")
    yield spec("fails", "echo run; exit 7", restart=RestartRule("on-failure", 1))
    yield spec("succeeds", "echo run", restart=RestartRule("on-failure", 1))
    if isinstance(provider, OpensTerminals):
        yield spec("console", CONSOLE, tty=True)
    if found.timeouts:
        yield spec("late", LISTENS, timeout=1.0)
    if claims(provider, Limit.MEMORY, harness.nodes[0]):
        yield spec("hungry", "exec tail /dev/zero", memory=32 * MIB)
    if claims(provider, Limit.PIDS, harness.nodes[0]):
        many = "i=0; while [ $i -lt 30 ]; do sleep 300 & i=$((i+1)); done; wait"
        yield spec("many", many, pids=10)
    if claims(provider, Limit.CPUSET, harness.nodes[0]):
        yield spec("pinned", f"grep Cpus_allowed_list /proc/self/status; {LISTENS}", cpus=(harness.cpu,))
