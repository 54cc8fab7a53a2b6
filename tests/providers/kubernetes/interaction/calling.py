"""Callers of commands and terminals: processes of their own, whose streams and signals are a test's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect

from providers.kubernetes.objects.names import PodRef

REPOSITORY = Path(__file__).resolve().parents[4]
CALLER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it ignored
from providers.kubernetes.api.access import find_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.interaction.attach import attach
from providers.kubernetes.interaction.execute import execute
from providers.kubernetes.objects.names import PodRef
kubeconfig, namespace, name, what, *argv = sys.argv[1:]
client, pod = ApiClient(find_access("", {"KUBECONFIG": kubeconfig})), PodRef(namespace, name)
if what == "attach":
    sys.exit(attach(client, pod, sys.stdin.buffer))
sys.exit(execute(client, pod, tuple(argv), stdin=sys.stdin.buffer, tty=what == "tty"))
"""
ENVIRONMENT = {**os.environ, "TERM": "vt100"}


class Caller:
    def __init__(self, kubeconfig: Path, pod: PodRef) -> None:
        self._words = [sys.executable, "-c", CALLER, str(kubeconfig), pod.namespace, pod.name]

    def run(self, *argv: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self._words, "plain", *argv], input=text, capture_output=True, cwd=REPOSITORY, timeout=120
        )

    @contextlib.contextmanager
    def beside(self, *argv: str, what: str = "plain") -> Iterator[subprocess.Popen[str]]:
        """A command that runs beside the test, with no input; ended with it."""
        with subprocess.Popen(
            [*self._words, what, *argv], cwd=REPOSITORY, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as started:  # fmt: skip
            try:
                yield started
            finally:
                started.kill()

    def terminal(self, what: str, *argv: str) -> pexpect.spawn:  # type: ignore[type-arg]
        first, *rest = [*self._words, what, *argv]
        return pexpect.spawn(
            first, rest, env=ENVIRONMENT, cwd=str(REPOSITORY), timeout=60, use_poll=True, encoding="utf-8",
            dimensions=(31, 97),
        )  # fmt: skip


def left(child: pexpect.spawn) -> int | None:  # type: ignore[type-arg]
    """Its exit code, once it has ended."""
    child.expect(pexpect.EOF)
    child.close()
    code: int | None = child.exitstatus
    return code


def until_size(child: pexpect.spawn, size: str) -> None:  # type: ignore[type-arg]
    """The size arrives a moment after the window has changed."""
    for _ in range(100):
        child.sendline("stty size; echo d''one")
        child.expect(r"(\d+ \d+)\s+done")
        if child.match[1] == size:  # type: ignore[index, union-attr]
            return
    raise AssertionError(f"never {size}")
