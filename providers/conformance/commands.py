"""Commands inside of a kernel, with the caller's streams."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import WORDS, Commands, StartedKernels, require_programs
from schemas.problems.errors.kernel import NotRunning
from schemas.problems.errors.provider import ProviderError


class RunsCommands:
    def test_a_command_has_the_kernels_variables_and_the_callers_streams(
        self, harness: ProviderHarness, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("runs")
        script = 'printf "%s|" "$A" "$B" "$@"; cat; echo oops >&2; exit 6'
        done = commands.run(spec.id, "sh", "-c", script, "sh", *WORDS, text=b"typed\n")
        words = ["1", "it's $2\n", *WORDS]
        assert done.out.decode() == "".join(f"{word}|" for word in words) + "typed\n"
        assert (done.code, done.err) == (6, b"oops\n")

    def test_another_instance_runs_commands_too(
        self, harness: ProviderHarness, capfdbinary: pytest.CaptureFixture[bytes], started: StartedKernels
    ) -> None:
        require_programs(harness)
        with closing(harness.open()) as other:
            done = Commands(other, capfdbinary).run(started.ready("runs").id, "sh", "-c", "echo in")
        assert (done.code, done.out) == (0, b"in\n")

    def test_bytes_of_any_number_and_kind_go_through(
        self, harness: ProviderHarness, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        text = os.urandom(1 << 19) + bytes(range(256)) * 2048
        done = commands.run(started.ready("runs").id, "cat", text=text)
        assert (done.code, done.out == text, done.err) == (0, True, b"")

    def test_a_command_that_reads_nothing_holds_nobody_up(
        self, harness: ProviderHarness, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("runs")
        argv = ("true",) if harness.hears_out else ("head", "-c", "1")  # Its input is there by then.
        assert commands.run(spec.id, *argv, text=b"x" * (1 << 13)).code == 0
        assert commands.run(spec.id, "cat").out == b"", "nobody types, which is the end of input"

    def test_a_signal_has_its_code(
        self, harness: ProviderHarness, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        assert commands.run(started.ready("runs").id, "sh", "-c", "kill -KILL $$").code == 137

    def test_what_cannot_be_run_has_a_shells_code_and_one_line(
        self, harness: ProviderHarness, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("runs")
        for program, code in (("no-such", 127), ("/no/such", 127), ("/etc/passwd", 126), ("/etc", 126)):
            done = commands.run(spec.id, program)
            assert (done.code, done.out) == (code, b""), program
            assert f"{program}: ".encode() in done.err and len(done.err.splitlines()) == 1, done.err

    def test_no_command_is_refused_and_nothing_runs_in_what_has_ended(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        for argv in ((), ("true", "a\0b")):
            with pytest.raises(ProviderError, match="no command"):
                provider.execute(started.ready("runs").id, argv)
        with pytest.raises(NotRunning):
            provider.execute(started.ended("ends").id, ("true",))
