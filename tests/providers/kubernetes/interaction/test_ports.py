"""Ports of pods of a real cluster."""

from __future__ import annotations

import pytest

from providers.kubernetes.interaction.forward import dial
from providers.kubernetes.objects.names import PodRef
from providers.machines.base import Stream
from schemas.problems.errors.kernel import KernelNotFound, NotRunning, PortRefused
from schemas.problems.errors.provider import ProviderError
from tests.providers.kubernetes.interaction.conftest import Line, Pods, threads
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
ECHO = "while :; do nc -l -p 7070 -e sh -c 'echo hello; exec cat'; done"


def reached(
    pods: Pods, pod: PodRef, port: int, *, line: Line | None = None, says: bytes = b"", asked: bytes = b""
) -> Stream:
    """A connection, as soon as somebody listens who says this first, once it was asked."""

    def dialled() -> Stream | None:
        try:
            stream = dial((line or pods).client, pod, port)
            stream.sendall(asked)
            if stream.recv(len(says)) == says:
                return stream
        except (PortRefused, OSError):
            return None
        stream.close()  # A refusal that came late, as an end.
        return None

    return until(dialled, f"port {port} is served")


def is_refused(pods: Pods, pod: PodRef, port: int) -> bool:
    """Whether that is said, and why, before the connection is had; it ends without a word otherwise."""
    try:
        stream = dial(pods.client, pod, port)
    except PortRefused as refused:
        assert "nothing listens on it" in refused.message
        return True
    assert read_all(stream) == b""
    return False


def read_all(stream: Stream) -> bytes:
    parts = []
    while data := stream.recv(65536):
        parts.append(data)
    stream.close()
    return b"".join(parts)


def test_what_listens_on_its_loopback_only_is_reached_too(pods: Pods) -> None:
    pod = pods.run("echo found >/tmp/f; exec httpd -f -p 127.0.0.1:7070 -h /tmp")
    stream = reached(pods, pod, 7070, says=b"HTTP/", asked=b"GET /f HTTP/1.0\r\n\r\n")
    said = read_all(stream)
    assert b" 200 OK" in said and said.endswith(b"found\n")


def test_a_connection_that_is_closed_here_ends_there(pods: Pods) -> None:
    pod = pods.run(ECHO)
    for _ in range(3):  # One at a time is served: the next only after the one before has ended.
        reached(pods, pod, 7070, says=b"hello\n").close()
    until(lambda: not threads("port", "websocket"), "no thread is left")


def test_a_port_that_nobody_serves_is_refused(pods: Pods) -> None:
    pod = pods.run()
    for _ in range(10):  # However fast the answer comes.
        until(lambda: is_refused(pods, pod, 7071), "who dials is told so")
    with pytest.raises(NotRunning):
        dial(pods.client, pods.ended(), 7071)
    with pytest.raises(KernelNotFound):
        dial(pods.client, PodRef(pods.namespace, "nobody"), 7071)
    client = pods.account("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    with pytest.raises(ProviderError, match="pods/portforward"):
        dial(client, pod, 7071)


def test_a_connection_that_breaks_off_ends(pods: Pods, line: Line) -> None:
    stream = reached(pods, pods.run(ECHO), 7070, line=line, says=b"hello\n")
    line.cut()
    assert read_all(stream) == b""
