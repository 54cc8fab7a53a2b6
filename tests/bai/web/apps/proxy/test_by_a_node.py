"""Apps by the Caddy of a node: as `roles/app_proxy` configures it, its way in without SSH."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from bai.web.apps.proxy.caddy_config import PERMISSION_HOST
from tests.bai.web.apps.app_lab import HOST, AppLab, Gate
from tests.bai.web.apps.proxy.node_lab import APP, NodeLab, node_lab
from tests.waiting import until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeLab]:
    gate = Gate(0, certificates=frozenset({APP}))
    with node_lab(tmp_path_factory.mktemp("n"), gate) as made:
        until(lambda: made.lab.status() == 200, "the app answers")
        yield made


def told(lab: AppLab, address: str) -> dict[str, str]:
    """What the app hears from a client at this address."""
    with socket.create_connection(("127.0.0.1", lab.port), 60, source_address=(address, 0)) as stream:
        lines = ["GET / HTTP/1.1", f"Host: {HOST}", "X-Forwarded-For: 6.6.6.6", "Connection: close", "", ""]
        stream.sendall("\r\n".join(lines).encode())
        whole = b""
        while part := stream.recv(65536):
            whole += part
    return dict(json.loads(whole.partition(b"\r\n\r\n")[2])["headers"])


def test_each_client_is_told_by_its_own_address(node: NodeLab) -> None:
    """Also where connections between the two proxies are used again; what clients say of it is gone."""
    for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3") * 3:
        assert told(node.lab, address)["x-forwarded-for"] == address
        assert node.lab.gate.headers_of()["x-forwarded-for"] == address


def test_who_writes_a_header_of_connections_is_no_client(node: NodeLab) -> None:
    """That of the node counts, not one that a browser puts before its request."""
    forged = b"PROXY TCP4 6.6.6.6 6.6.6.6 1 1\r\nGET / HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n\r\n"
    assert b" 400 " in node.lab.send(forged).partition(b"\r\n")[0]


def test_names_that_are_the_proxys_own_are_gone(node: NodeLab) -> None:
    said = {
        "Bai-Upstream": "unix//run/x",
        "Bai-Cookie": "a",
        "X_Forwarded_For": "1.2.3.4",
        "Forwarded": "for=1",
    }
    heard = node.lab.told(headers=said)
    assert not {name for name in heard if name.startswith("bai-") or "_" in name or name == "forwarded"}
    assert heard["host"] == HOST and heard["x-forwarded-proto"] == "http"


def test_websockets_streams_and_bodies_go_through(node: NodeLab) -> None:
    with node.lab.talk() as connection:
        connection.send("hello")
        assert connection.recv() == "heard hello"
    assert node.lab.ask("POST", content=b"x" * (1 << 20)).json()["size"] == 1 << 20
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", f"{node.lab.url}/sse", headers={"Host": HOST}) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "data: first"
        node.lab.go_on.set()
        assert "data: second" in list(lines)


def test_what_is_no_apps_address_is_not_passed_on(node: NodeLab) -> None:
    before = len(node.lab.gate.asked)
    for host in ("apps.example", "other.example", PERMISSION_HOST):
        assert node.lab.ask(path="/certificate?domain=x", host=host).status_code == 421
    assert node.lab.ask("CONNECT").status_code in (400, 405)
    assert len(node.lab.gate.asked) == before


def test_certificates_are_asked_for_by_the_same_way(node: NodeLab) -> None:
    assert (node.certificate(APP), node.certificate("web--other--demo.apps.example")) == (200, 404)
    with httpx.Client(trust_env=False, timeout=60) as client:
        assert client.get(f"http://127.0.0.1:{node.permission}/check").text == ""


def asked_anew(lab: AppLab, **headers: str) -> httpx.Response:
    """By somebody for whom no connection between the two proxies stands."""
    transport = httpx.HTTPTransport(local_address="127.0.0.9")
    with httpx.Client(transport=transport, trust_env=False, timeout=60) as client:
        return client.get(lab.url, headers={"Host": HOST, **headers})


def test_where_nobody_is_it_says_so_and_goes_on_when_somebody_is(node: NodeLab) -> None:
    target = node.way_in.readlink()
    node.way_in.unlink()
    page = asked_anew(node.lab, Accept="text/html,*/*;q=0.8")
    assert page.status_code == 503 and "Apps are not reached just now" in page.text
    assert ":root{color-scheme" in page.text and page.headers["Retry-After"] == "5"
    assert "not reached just now" in asked_anew(node.lab).json()["detail"]
    node.way_in.symlink_to(target)
    assert asked_anew(node.lab).status_code == 200
