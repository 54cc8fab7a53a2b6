"""A server is asked for its status, whatever it does."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.observe.readiness.http_status import MOST_HANDSHAKE, MOST_HEAD
from reconciler.observe.readiness.standing import Answer
from tests.reconciler.readiness.replicas import Dials, answers, asked, pattern, replica, server

CHECK = {"http": {"port": "http", "path": "/up"}, "timeout": "30s"}


def answered(talk: Callable[[socket.socket], None], *, seconds: float = 30, tls: bool = False) -> Answer:
    dials, one = Dials(), replica(pattern(readiness=CHECK))
    assert one.readiness is not None
    with server(talk) as port:
        dials.ports[one.kernel] = port
        return asked(dials.ask, one, replace(one.readiness, timeout=seconds, tls=tls))


@pytest.mark.parametrize("status", [200, 204, 302, 399])
def test_a_status_below_400_is_a_good_answer(status: int) -> None:
    assert answered(answers(b"HTTP/1.1 %d Whatever\r\n\r\n" % status)).good


@pytest.mark.parametrize("status", [101, 400, 404, 500, 503, 999])
def test_any_other_status_is_not(status: int) -> None:
    found = answered(answers(b"HTTP/1.0 %d\r\n\r\n" % status))
    assert (found.good, found.why) == (False, f"GET /up of port http is answered with {status}")


def test_what_comes_before_the_status_is_passed_over() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    assert answered(answers(early * 3 + b"HTTP/1.1 200 OK\r\n\r\n")).good
    assert not answered(answers(early * 3 + b"HTTP/1.1 503 No\r\n\r\n")).good


def test_what_is_asked_is_one_request_of_this_path() -> None:
    heard: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    dials = Dials()
    one = replica(pattern(readiness={**CHECK, "http": {"port": "http", "path": "/up?a=b%20c&d=[1]"}}))
    with server(talk) as port:
        dials.ports[one.kernel] = port
        assert asked(dials.ask, one).good
    (request,) = heard
    assert request.startswith(b"GET /up?a=b%20c&d=[1] HTTP/1.1\r\nHost: ")
    assert request.endswith(b"\r\nConnection: close\r\n\r\n") and request.count(b"\r\n\r\n") == 1


def test_a_status_is_enough_and_the_rest_is_not_waited_for() -> None:
    over = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        over.wait(120)

    try:
        assert answered(talk, seconds=60).good
    finally:
        over.set()


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.9\r\n", b"\0" * 100, b"HTTP/2 200 OK\r\n\r\n"])
def test_what_is_not_http_is_no_answer(said: bytes) -> None:
    assert answered(answers(said)).why == "GET /up of port http: the answer is not HTTP"


def test_an_end_without_an_answer_is_none() -> None:
    assert answered(answers(b"HTTP/1.1")).why == (
        "GET /up of port http: the connection was closed without an answer"
    )


def flood(connection: socket.socket, first: bytes, again: bytes, sent: list[int]) -> None:
    connection.sendall(first)
    try:
        while True:
            connection.sendall(again)
            sent[0] += len(again)
    except OSError:
        pass


def test_endless_heads_are_read_to_a_bound() -> None:
    """Of a replica that sends one informational answer after the other, for ever, or one whose head has no
    end."""
    for again in (b"HTTP/1.1 103 Early\r\n\r\n", b"X: " + b"y" * 4000 + b"\r\n"):
        sent = [0]

        def talk(connection: socket.socket, again: bytes = again, sent: list[int] = sent) -> None:
            flood(connection, b"HTTP/1.1 103 Early\r\nA: b\r\n", again, sent)

        found = answered(talk, seconds=60)
        assert (found.good, found.late) == (False, False)
        assert found.why == f"GET /up of port http: no status within {MOST_HEAD >> 10} KiB"


def test_a_huge_body_is_not_read() -> None:
    sent = [0]
    assert answered(lambda connection: flood(connection, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, sent)).good


def test_a_drip_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the answer never does."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 103 Early\r\nX: ")
        while True:
            connection.sendall(b"y")
            time.sleep(0.02)

    found = answered(talk, seconds=0.5)
    assert (found.good, found.late) == (False, True)
    assert found.why == "GET /up of port http: no answer within 0.5 s"


def test_silence_ends_with_the_time() -> None:
    over = threading.Event()
    try:
        assert answered(lambda connection: bool(over.wait(60)) and None, seconds=0.3).late
    finally:
        over.set()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-signed, over since long ago, for another name."""
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "elsewhere.example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2001, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2001, 1, 2, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize(("status", "good"), [(200, True), (503, False)])
def test_tls_is_spoken_and_no_certificate_is_looked_at(certificate: Path, status: int, good: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(65536)
            secure.sendall(b"HTTP/1.1 %d X\r\n\r\n" % status)

    assert answered(talk, tls=True).good is good


def test_endless_heads_in_tls_are_read_to_a_bound(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    sent = [0]

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            flood(secure, b"HTTP/1.1 103 Early\r\n", b"X: y\r\n" * 1000, sent)

    found = answered(talk, tls=True, seconds=60)
    assert found.why == f"GET /up of port http: no status within {MOST_HEAD >> 10} KiB"


def test_a_plain_server_is_no_answer_in_tls() -> None:
    found = answered(answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"), tls=True)
    assert not found.good and "port http" in found.why


def test_a_handshake_without_end_is_read_to_a_bound() -> None:
    """Records of a handshake that never comes to its point."""
    sent = [0]
    record = b"\x16\x03\x03\x00\x04" + b"\x02\x00\xff\xff"

    def talk(connection: socket.socket) -> None:
        flood(connection, record, b"\x16\x03\x03\x10\x00" + b"\0" * 4096, sent)

    found = answered(talk, tls=True, seconds=60)
    assert (found.good, found.late) == (False, False)
    assert sent[0] < 100 * MOST_HANDSHAKE
