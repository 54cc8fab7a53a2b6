"""Apps by ports of one host, through the real Caddy and the relay for raw TCP."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from bai.web.apps.proxy.app_proxy import PortRangeSite
from bai.web.apps.proxy.balancer import Balancer, Replica
from bai.web.apps.proxy.certificates import InternalCertificates
from bai.web.apps.proxy.ports.tcp_ports import TcpPorts, TcpTarget
from bai.web.apps.proxy.service_way import ServiceWay
from providers.machines.relay import DialledWay, Way
from tests.bai.web.apps.app_lab import AppLab, app_lab, dial_loopback
from tests.harness.ports import free_span
from tests.waiting import until

EVERYBODY = ("0.0.0.0/0", "::/0")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AppLab, int]]:
    with app_lab(tmp_path_factory.mktemp("storage")) as lab:
        first = free_span(2)
        site = PortRangeSite("127.0.0.1", "http", EVERYBODY, first, first + 1)
        lab.proxy.serve(["http://*.apps.example"], [site])
        until(lambda: answers(first), "Caddy serves the ports")
        lab.gate.asked.clear()
        yield lab, first


def answers(number: int) -> bool:
    with contextlib.suppress(OSError, httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{number}/", timeout=60, trust_env=False).status_code == 200
    return False


def is_free(number: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", number)):
        return True
    return False


def test_the_gate_hears_at_which_port_a_connection_arrived_whatever_the_client_says(
    ports: tuple[AppLab, int],
) -> None:
    lab, first = ports
    lies = {"Host": f"127.0.0.1:{first}", "Bai-Port": str(first), "X-Forwarded-Port": str(first)}
    answer = httpx.get(f"http://127.0.0.1:{first + 1}/x", headers=lies, trust_env=False, timeout=60)
    assert answer.status_code == 200
    heard = lab.gate.headers_of()
    assert (heard["bai-port"], heard["x-forwarded-host"]) == (str(first + 1), f"127.0.0.1:{first}")
    assert not [name for name, _ in answer.json()["headers"] if name.startswith("bai-")]
    lab.ask(headers={"Bai-Port": str(first)})
    assert lab.gate.headers_of()["bai-port"] == "", "an app with a name of its own has no port"


def test_another_host_is_no_apps(ports: tuple[AppLab, int]) -> None:
    _, first = ports
    evil = {"Host": f"evil.example:{first}"}
    answer = httpx.get(f"http://127.0.0.1:{first}/", headers=evil, trust_env=False, timeout=60)
    assert (answer.status_code, answer.text) == (421, "No app has this address.\n")


def test_what_an_app_sets_is_its_ports_alone_and_no_scripts(ports: tuple[AppLab, int]) -> None:
    _, first = ports
    answer = httpx.get(f"http://127.0.0.1:{first}/cookies", trust_env=False, timeout=60)
    assert answer.headers.get_list("set-cookie") == [
        f"p{first}-a=1; Path=/; HttpOnly",
        f"p{first}-b=2; Path=/; HttpOnly; HttpOnly",
        f"p{first}-c=3;dOmAiN;Secure; HttpOnly",
        f"p{first}-d=4; HttpOnly",
        f"p{first}-e=domain=kept; Path=/; HttpOnly",
        *[""] * 4,
    ]
    assert not {"clear-site-data", "alt-svc", "bai-x", "strict-transport-security"} & set(answer.headers)


def test_what_a_websocket_sets_is_its_ports_alone(ports: tuple[AppLab, int]) -> None:
    _, first = ports
    stream = socket.create_connection(("127.0.0.1", first), timeout=60)
    with connect(f"ws://127.0.0.1:{first}/ws", sock=stream, proxy=None, open_timeout=60) as talk:
        talk.send("hello")
        assert talk.recv() == "heard hello" and talk.response is not None
        assert talk.response.headers.get_all("Set-Cookie") == [f"p{first}-w=1; Path=/; HttpOnly"]


def test_networks_that_may_not_connect_get_no_answer_and_a_taken_port_keeps_no_other(tmp_path: Path) -> None:
    first = free_span(2)
    with app_lab(tmp_path) as lab, socket.create_server(("127.0.0.1", first)) as other:
        site = PortRangeSite("127.0.0.1", "http", ("192.0.2.0/24",), first, first + 1)
        lab.proxy.serve(["http://*.apps.example"], [site])
        assert list(lab.proxy.failures) == [first] and "address already in use" in lab.proxy.failures[first]
        assert len([line for line in lab.said if f"port {first} cannot be had" in line]) == 1
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"http://127.0.0.1:{first + 1}/", timeout=60, trust_env=False)
        other.close()
        site = PortRangeSite("127.0.0.1", "http", EVERYBODY, first, first + 1)
        lab.proxy.serve(["http://*.apps.example"], [site])
        until(lambda: answers(first) and answers(first + 1), "both are served")
        assert not lab.proxy.failures
        lab.proxy.serve(["http://*.apps.example"])
        until(lambda: is_free(first) and is_free(first + 1), "neither is any more")
        assert lab.ask().status_code == 200


def test_a_port_that_is_given_up_is_not_handed_to_the_next_caddy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which begins before it is closed here."""
    with app_lab(tmp_path) as lab:
        first = free_span(1)
        site = PortRangeSite("127.0.0.1", "http", EVERYBODY, first, first)
        lab.proxy.serve(["http://*.apps.example"], [site])
        until(lambda: answers(first), "Caddy serves the port")
        before, close_others = lab.proxy.caddy.pid, lab.proxy._held.close_others

        def close_late(wanted: Collection[int]) -> None:
            until(lambda: lab.proxy.caddy.pid not in (None, before), "Caddy is begun anew")
            close_others(wanted)

        monkeypatch.setattr(lab.proxy._held, "close_others", close_late)
        lab.proxy.serve(["http://*.apps.example"])
        until(lambda: is_free(first), "nobody listens there")
        assert lab.ask().status_code == 200


def test_a_host_that_is_an_address_has_a_certificate(tmp_path: Path) -> None:
    first = free_span(1)
    with app_lab(tmp_path, certificates=InternalCertificates()) as lab:
        site = PortRangeSite("127.0.0.1", "https", EVERYBODY, first, first)
        lab.proxy.serve(["https://*.apps.example"], [site])

        def trusted() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", first), 60) as stream:
                context = ssl.create_default_context(
                    cafile=str(lab.storage / "pki/authorities/local/root.crt")
                )
                with context.wrap_socket(stream, server_hostname="127.0.0.1"):
                    return True
            return False

        until(trusted, "it is believed")


class Echo:
    """Sends back what it gets, after its name."""

    def __init__(self, name: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.name, self.port = name, int(self._listener.getsockname()[1])
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        with stream:
            stream.sendall(self.name)
            while data := stream.recv(4096):
                stream.sendall(data)

    def close(self) -> None:
        self._listener.close()


class TcpLab:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.balancer = Balancer()
        self.one, self.two = Echo(b"1"), Echo(b"2")
        self.tcp = TcpPorts("127.0.0.1", self._way_to, self.said.append)
        self.gone = False

    def _way_to(self, target: TcpTarget) -> Way:
        if target.identity.startswith("Service/"):
            return ServiceWay(self.balancer, f"c/{target.identity}", target.port, dial_loopback)
        return DialledWay(lambda: dial_loopback("k", target.port))

    def target(self, identity: str = "Session/p/a", networks: tuple[str, ...] = EVERYBODY) -> TcpTarget:
        return TcpTarget("c", identity, "echo", networks, self.one.port)

    def follow(self, targets: dict[int, TcpTarget]) -> None:
        self.tcp.follow(targets, lambda target: self.gone)

    def close(self) -> None:
        self.tcp.close()
        self.one.close()
        self.two.close()


@pytest.fixture
def tcp() -> Iterator[TcpLab]:
    made = TcpLab()
    yield made
    made.close()


def connected(number: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", number), timeout=60)


def is_refused(number: int) -> bool:
    try:
        connected(number).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_port_is_closed_with_what_is_open_when_it_is_nobodys(tcp: TcpLab) -> None:
    first = free_span(1)
    tcp.follow({first: tcp.target()})
    with connected(first) as stream:
        assert stream.recv(1) == b"1"
        stream.sendall(b"hello")
        assert stream.recv(5) == b"hello"
        tcp.follow({first: tcp.target()})
        stream.sendall(b"still")
        assert stream.recv(5) == b"still"
        tcp.follow({})
        assert is_refused(first)
        assert stream.recv(1) == b""


def test_connections_of_what_is_removed_come_to_their_end_with_it(tcp: TcpLab) -> None:
    first = free_span(1)
    tcp.follow({first: tcp.target()})
    with connected(first) as stream:
        assert stream.recv(1) == b"1"
        tcp.gone = True
        tcp.follow({})
        assert is_refused(first)
        stream.sendall(b"still")
        assert stream.recv(5) == b"still"


def test_a_port_that_becomes_anothers_leads_nobody_to_the_first(tcp: TcpLab) -> None:
    first = free_span(1)
    tcp.follow({first: tcp.target()})
    with connected(first) as stream:
        assert stream.recv(1) == b"1"
        tcp.follow({first: TcpTarget("c", "Session/p/b", "echo", EVERYBODY, tcp.two.port)})
        assert stream.recv(1) == b""
    with connected(first) as stream:
        assert stream.recv(1) == b"2"


def test_whoever_is_of_no_network_is_sent_away(tcp: TcpLab) -> None:
    first = free_span(1)
    tcp.follow({first: tcp.target(networks=("192.0.2.0/24", "::/0"))})
    with connected(first) as stream:
        assert stream.recv(1) == b""


def test_a_port_that_another_program_has_is_said_once_and_tried_again(tcp: TcpLab) -> None:
    first = free_span(2)
    with socket.create_server(("127.0.0.1", first)):
        wanted = {first: tcp.target(), first + 1: tcp.target("Session/p/b")}
        tcp.follow(wanted)
        tcp.follow(wanted)
        assert list(tcp.tcp.failures) == [first] and len(tcp.said) == 1, tcp.said
        with connected(first + 1) as stream:
            assert stream.recv(1) == b"1"
    tcp.follow(wanted)
    assert not tcp.tcp.failures
    with connected(first) as stream:
        assert stream.recv(1) == b"1"


def test_connections_to_a_replica_count_until_they_end(tcp: TcpLab) -> None:
    """Two replicas take turns, and one is drained when its connection is over."""
    first, service = free_span(1), "Service/p/echo"
    by_name = {"c/one": tcp.one, "c/two": tcp.two}
    replicas = [
        Replica(name, "g", 1.0, lambda port, server=server: server.port, lambda: True)  # type: ignore[misc]
        for name, server in by_name.items()
    ]
    tcp.balancer.update("c", {f"c/{service}": replicas})
    tcp.follow({first: tcp.target(service)})
    with connected(first) as one, connected(first) as two:
        assert {one.recv(1), two.recv(1)} == {b"1", b"2"}
        assert [tcp.balancer.connections(name) for name in by_name] == [1, 1]
        never = threading.Event()
        assert tcp.balancer.drain("c/one", 600, 0, lambda left: None, never) > 0
    until(lambda: not tcp.balancer.connections("c/one"), "its connection is over")
    assert tcp.balancer.drain("c/one", 600, 0, lambda left: None, never) == 0
