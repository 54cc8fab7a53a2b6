"""Connections to an API server that break without a word, or stand still."""

from __future__ import annotations

import threading

import pytest

from providers.kubernetes.api import websocket
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.api.websocket import open_websocket
from providers.kubernetes.interaction.channels import open_channels
from schemas.problems.errors.provider import ProviderError
from tests.lab.spaces import inside
from tests.providers.kubernetes.interaction.conftest import Pods, client_of, threads
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")


def test_an_end_that_no_longer_answers_is_noticed(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = pods.run()
    monkeypatch.setattr(websocket, "PING", 0.5)
    monkeypatch.setattr(websocket, "SILENCE", 3.0)
    node = pods.lab.node("n0", pods.lab.nodes["n0"].options)
    with inside(node.namespace):
        client = client_of(pods.lab.control_plane.inner_kubeconfig)
        channels = open_channels(client, pod, "exec", ("sleep", "1000"), typed=False, tty=False)
    try:
        node.link(up=False)
        with pytest.raises(OSError, match="no longer answers"):
            list(channels.frames())
    finally:
        node.link(up=True)
        channels.close()
        client.close()


def test_a_command_that_does_not_read_keeps_its_connection(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not listen is not gone: what is sent to it waits."""
    pod = pods.run()
    monkeypatch.setattr(websocket, "PING", 0.2)
    monkeypatch.setattr(websocket, "SILENCE", 1.0)
    words = ("sh", "-c", "while ! [ -e /go ]; do sleep 0.3; done; wc -c")
    channels = open_channels(pods.client, pod, "exec", words, typed=True, tty=False)
    much = b"x" * 64_000_000

    def send() -> None:
        channels.send(much)
        channels.end()

    sender = threading.Thread(target=send)
    sender.start()
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend(data for _, data in channels.frames()))
    reader.start()
    sender.join(5)  # More than all buffers on the way hold, and longer than who is gone would be waited for.
    assert reader.is_alive()
    pods.said(pod, "touch", "/go")
    reader.join(60)
    sender.join(60)
    channels.close()
    assert b"".join(said).split() == [b"64000000"]


def test_an_upgrade_that_is_refused_says_why(pods: Pods) -> None:
    with pytest.raises(ApiRefusal) as refused:
        open_websocket(
            pods.client,
            "/api/v1/namespaces/default/pods/nobody/exec",
            [("command", "x")],
            ("v5.channel.k8s.io",),
        )
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
    assert 'pods "nobody" not found' in refused.value.message


def test_input_needs_a_server_that_can_be_told_its_end(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers before 1.30 offer `v4` only; so does this one, to who does not ask for more."""
    from providers.kubernetes.interaction import channels

    pod = pods.run()
    monkeypatch.setattr(channels, "V5", "v4.channel.k8s.io")
    opened = open_channels(pods.client, pod, "exec", ("echo", "out"), typed=False, tty=False)
    assert [data for _, data in opened.frames()] == [b"out\n"]
    opened.close()
    monkeypatch.setattr(channels, "V5", "v5.channel.k8s.io")
    asked = channels.open_websocket

    def old(client: object, path: str, query: object, _: object) -> object:
        return asked(client, path, query, ("v4.channel.k8s.io",))  # type: ignore[arg-type]

    monkeypatch.setattr(channels, "open_websocket", old)
    with pytest.raises(ProviderError, match="cannot tell a command that input ends"):
        open_channels(pods.client, pod, "exec", ("cat",), typed=True, tty=False)


def test_closing_leaves_no_thread(pods: Pods) -> None:
    pod = pods.run()
    for _ in range(3):
        channels = open_channels(pods.client, pod, "exec", ("sleep", "1000"), typed=True, tty=False)
        channels.leave()
        assert list(channels.frames()) == []
        channels.close()
    until(lambda: not threads("websocket"), "no thread is left")
