"""What only some providers can do (`providers.abilities`), where they say that they can."""

from __future__ import annotations

import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from providers.abilities import CopiesFiles, ForwardsPorts, KernelEvent, MeasuresUsage, StreamsEvents
from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import (
    LISTENS,
    Commands,
    StartedKernels,
    once,
    require_ability,
    require_programs,
)
from providers.conformance.waiting import soon, until
from providers.machines.base import Stream
from schemas.problems.errors.kernel import CopyRefused, KernelNotFound, NotRunning, PortRefused

PROBES = 20


class Extras:
    def test_a_port_is_reached_and_carries_bytes_both_ways(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_ability(provider, ForwardsPorts)
        able, spec = cast(ForwardsPorts, provider), started.ready("runs")

        heard = b""

        def dialled() -> Stream | None:
            nonlocal heard
            try:
                stream = able.dial(spec.id, harness.port)
            except PortRefused:
                return None
            heard = stream.recv(65536)
            if heard:
                return stream
            stream.close()  # A refusal that comes late is an end.
            return None

        stream = until(dialled, f"port {harness.port} is served")
        text = bytes(range(256)) * 1000
        sender = threading.Thread(target=stream.sendall, args=(text,))
        sender.start()
        # All of it before the end is said: not every way can tell of one direction's end alone.
        while len(heard) < len(b"hello\n" + text) and (more := stream.recv(65536)):
            heard += more
        sender.join()
        stream.shutdown(socket.SHUT_WR)
        heard += b"".join(iter(lambda: stream.recv(65536), b""))
        stream.close()
        assert heard == b"hello\n" + text

    def test_a_port_that_nobody_serves_is_refused(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_ability(provider, ForwardsPorts)
        able = cast(ForwardsPorts, provider)
        runs = started.ready("runs").id
        until(lambda: _is_refused(able, runs, 1), "who dials is told so")
        with pytest.raises(NotRunning):
            able.dial(started.ended("ends").id, harness.port)
        with pytest.raises(KernelNotFound):
            able.dial(harness.spec("nobody", "").id, harness.port)

    def test_files_go_in_and_out(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_ability(provider, CopiesFiles)
        able, kernel_id = cast(CopiesFiles, provider), started.ready("runs").id
        assert commands.run(kernel_id, "sh", "-c", "mkdir -p d; printf x > d/f; chmod 600 d/f").code == 0
        able.copy_in(kernel_id, "d", _packed({"a/b": b"1", "it's $x": b"2" * 1_000_000}))
        found = _unpacked(able.copy_out(kernel_id, "d"))
        assert {"d/f", "d/a/b", "d/it's $x"} <= found.keys()
        assert found["d/f"].mode & 0o777 == 0o600 and found["d/it's $x"].size == 1_000_000
        assert commands.run(kernel_id, "cat", "d/a/b").out == b"1"
        for path in ("nope", "/no/such", "a\0b"):
            with pytest.raises(CopyRefused):
                list(able.copy_out(kernel_id, path))
        for path, archive in (("nope", _packed({"a": b""})), ("d", iter([b"this is no archive" * 1000]))):
            with pytest.raises(CopyRefused):
                able.copy_in(kernel_id, path, archive)
        with pytest.raises(KernelNotFound):
            list(able.copy_out(harness.spec("nobody", "").id, "/"))

    def test_use_of_what_runs_is_measured_and_of_nothing_else(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_ability(provider, MeasuresUsage)
        able = cast(MeasuresUsage, provider)
        busy, ended = started.ready("busy").id, started.ended("ends").id

        def cpu_seconds() -> float:
            return next((use.cpu_seconds or 0.0 for use in able.usage() if use.kernel == busy), 0.0)

        started.let_go("busy")
        first = until(cpu_seconds, "it is measured")
        started.let_go("busy")
        until(lambda: cpu_seconds() > first, "counters grow")
        assert ended not in {use.kernel for use in able.usage()}

    def test_what_happens_is_told(self, harness: ProviderHarness, provider: Provider) -> None:
        require_programs(harness)
        require_ability(provider, StreamsEvents)
        able = cast(StreamsEvents, provider)
        heard: list[KernelEvent] = []
        over = threading.Event()

        def listen() -> None:
            for event in able.events(over.is_set):
                heard.append(event)

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            self._until_it_listens(harness, provider, heard)
            spec = harness.spec("told", LISTENS)
            provider.create(spec)
            once(provider, spec.id, "running")
            for what in ("created", "started"):
                until(lambda: _told(heard, spec.id, what), lambda: f"{what} is told: {heard}")  # noqa: B023
            provider.stop(spec.id, grace=1.0)
            until(lambda: _told(heard, spec.id, "ended"), lambda: f"its end is told: {heard}")
            provider.remove(spec.id)
            until(lambda: _told(heard, spec.id, "removed"), lambda: f"its removal is told: {heard}")
        finally:
            over.set()
            listener.join(60)
        assert not listener.is_alive(), "it ends when it is told to"
        told = [event for event in heard if event.kernel == spec.id]
        assert [event.what for event in told].count("created") == 1
        assert {event.node for event in told} == {harness.nodes[0]}

    @staticmethod
    def _until_it_listens(harness: ProviderHarness, provider: Provider, heard: list[KernelEvent]) -> None:
        """What happens from now on is told: when that is, is known once something was."""
        for number in range(PROBES):
            provider.create(harness.spec(f"probe{number}", LISTENS))
            if soon(lambda: any(event.node == harness.nodes[0] for event in heard), seconds=3.0):
                return
        raise AssertionError("nothing is told")


def _is_refused(able: ForwardsPorts, kernel_id: str, port: int) -> bool:
    """Whether that is said in time; else the connection ends without a word."""
    try:
        stream = able.dial(kernel_id, port)
    except PortRefused:
        return True
    assert stream.recv(1) == b""
    stream.close()
    return False


def _told(heard: list[KernelEvent], kernel_id: str, what: str) -> bool:
    return any((event.kernel, event.what) == (kernel_id, what) for event in heard)


def _packed(files: dict[str, bytes]) -> Iterator[bytes]:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o640
            archive.addfile(member, io.BytesIO(content))
    return iter([made.getvalue()])


def _unpacked(chunks: Iterator[bytes]) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        return {member.name.removeprefix("./"): member for member in archive}
