"""gRPC through the real Caddy with TLS: a session's app, and replicas of a service."""

from __future__ import annotations

import queue
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

from bai.web.apps.answers import Notice, notice
from bai.web.apps.proxy.certificates import InternalCertificates
from tests.bai.web.apps.app_lab import HOST, Answer, AppLab, Gate, app_lab
from tests.bai.web.apps.proxy.grpc_lab import (
    NAME,
    TOKEN,
    GrpcServer,
    channel,
    grpc_server,
    only_with_token,
)
from tests.bai.web.apps.proxy.service_lab import ReplicaWorld, ServiceGate, ServiceLab
from tests.waiting import until


class GrpcServices(ServiceGate):
    def _decide(self, path: str, headers: dict[str, str], query: str) -> Answer:
        if path == "/unanswered":
            told = notice(503, Notice("This app does not answer"), form="grpc")
            return told.status, {name.decode(): value.decode() for name, value in told.headers}, told.body
        return super()._decide(path, headers, query)


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcServer]:
    with grpc_server("one") as made:
        yield made


@pytest.fixture(scope="module")
def apps(server: GrpcServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    gate = Gate(server.port, protocol="grpc", answer=only_with_token)
    with app_lab(tmp_path_factory.mktemp("storage"), certificates=InternalCertificates(), gate=gate) as made:
        yield made


@pytest.fixture
def apps_without_tls(server: GrpcServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    gate = Gate(server.port, protocol="grpc", answer=only_with_token)
    with app_lab(tmp_path_factory.mktemp("storage"), gate=gate) as made:
        yield made


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceLab]:
    world = ReplicaWorld()
    gate = GrpcServices(1, protocol="grpc")
    try:
        with app_lab(
            tmp_path_factory.mktemp("storage"),
            certificates=InternalCertificates(),
            dial=world.dial,
            gate=gate,
        ) as made:
            yield ServiceLab(world, made)
    finally:
        world.close()


@pytest.fixture
def replicas(services: ServiceLab) -> Iterator[list[GrpcServer]]:
    """Two of them, which are the service's."""
    with grpc_server("one") as one, grpc_server("two") as two:
        services.world.ports |= {"one": one.port, "two": two.port}
        services.use("one", "two")
        services.settles()
        yield [one, two]
        services.use()


@pytest.fixture
def to_app(apps: AppLab) -> Iterator[grpc.Channel]:
    with channel(apps) as made:
        yield made


@pytest.fixture
def to_service(services: ServiceLab) -> Iterator[grpc.Channel]:
    with channel(services.apps) as made:
        yield made


def test_one_question_one_answer(to_app: grpc.Channel, server: GrpcServer) -> None:
    """With headers, trailers and both large."""
    asked = b"x" * 3_000_000
    answer, call = to_app.unary_unary(f"/{NAME}/Echo").with_call(
        asked, metadata=(*TOKEN, ("of-mine", "kept"), ("bai-upstream", "elsewhere"))
    )
    assert answer == b"one " + asked and call.code() is grpc.StatusCode.OK
    assert dict(call.initial_metadata())["said-first"] == "one"
    assert dict(call.trailing_metadata()) == {"said-last": "over", "bytes-bin": b"\0\xff"}
    assert server.headers["of-mine"] == "kept"
    assert not {"bai-upstream", "authorization"} & set(server.headers)


def test_an_apps_own_failure_is_told_as_it_is(to_app: grpc.Channel) -> None:
    """Each time: it has no body, so that its beginning is its end."""
    calls = [to_app.unary_unary(f"/{NAME}/Fail").future(b"", metadata=TOKEN) for _ in range(200)]
    failed = [call.exception() for call in calls]
    assert {each.code() for each in failed} == {grpc.StatusCode.FAILED_PRECONDITION}
    assert {each.details() for each in failed} == {"100 % no: Ä"}
    assert all(("said-last", "failed") in each.trailing_metadata() for each in failed)


def test_answers_come_while_there_are_more(to_app: grpc.Channel, server: GrpcServer) -> None:
    server.go_on.clear()
    answers = to_app.unary_stream(f"/{NAME}/Count")(b"500", metadata=TOKEN)
    assert next(answers) == b"first"
    server.go_on.set()
    assert [*answers] == [b"%d" % number for number in range(500)]


def test_both_sides_talk_in_turns(to_app: grpc.Channel) -> None:
    questions: queue.Queue[bytes | None] = queue.Queue()
    answers = to_app.stream_stream(f"/{NAME}/Talk")(iter(questions.get, None), metadata=TOKEN)
    for word in (b"a", b"b", b"c"):
        questions.put(word)
        assert next(answers) == b"one " + word
    questions.put(None)
    assert [*answers] == []
    assert to_app.stream_unary(f"/{NAME}/Gather")(iter([b"ab", b"c" * 70_000]), metadata=TOKEN) == b"70002"


def test_a_call_without_a_token_is_refused_as_grpc_has_it(apps: AppLab, to_app: grpc.Channel) -> None:
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        with pytest.raises(grpc.RpcError) as failed:
            to_app.unary_unary(f"/{NAME}/Echo")(b"", metadata=metadata)
        assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert failed.value.details() == "Log in to open this app: Send a token: 100 %."
    with pytest.raises(grpc.RpcError) as failed:
        next(to_app.stream_stream(f"/{NAME}/Talk")(iter([b"a"])))
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_call_that_is_given_up_ends_at_the_app(to_app: grpc.Channel, server: GrpcServer) -> None:
    ends_with_the_app(to_app, server)


def ends_with_the_app(to: grpc.Channel, server: GrpcServer) -> None:
    """By being cancelled, and by its deadline, which the app knows."""
    call = call_of_app(to, server, 600)
    assert call is not None
    call.cancel()
    until(server.cancelled.is_set, "the app hears that it is cancelled")
    # A deadline that is over before a busy machine has brought it to the app says nothing of it.
    call = next(each for seconds in (2, 10, 50) if (each := call_of_app(to, server, seconds)))
    assert call.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.deadlines[-1] < 60
    until(server.cancelled.is_set, "the app hears of the deadline")
    server.go_on.set()


def call_of_app(to: grpc.Channel, server: GrpcServer, seconds: float) -> grpc.Future | None:
    """One that the app has and does not answer; None where its time was over before."""
    server.go_on.clear()
    server.cancelled.clear()
    server.waiting.clear()
    call = to.unary_unary(f"/{NAME}/Wait").future(b"", metadata=TOKEN, timeout=seconds)
    until(lambda: bool(server.waiting) or call.done(), "the app has it")
    return call if server.waiting else None


def test_each_call_goes_to_the_replica_with_the_fewest(
    services: ServiceLab, replicas: list[GrpcServer], to_service: grpc.Channel
) -> None:
    """Of one connection of a client as well."""
    echo = to_service.unary_unary(f"/{NAME}/Echo")
    found: Counter[bytes] = Counter()
    for _ in range(10):
        found[echo(b"").strip()] += 1
        services.settles()
    assert found == {b"one": 5, b"two": 5}
    calls = [to_service.unary_unary(f"/{NAME}/Wait").future(b"") for _ in range(6)]
    until(lambda: [len(each.waiting) for each in replicas] == [3, 3], "three are under way at each")
    assert [services.balancer.connections(f"c/{each.name}") for each in replicas] == [3, 3]
    for each in replicas:
        each.go_on.set()
    assert Counter(call.result() for call in calls) == {b"one": 3, b"two": 3}
    until(
        lambda: not any(services.balancer.connections(f"c/{each.name}") for each in replicas), "all are over"
    )


def test_many_calls_at_a_time(replicas: list[GrpcServer], to_service: grpc.Channel) -> None:
    """Each has a connection, and none is given another one's."""
    echo = to_service.unary_unary(f"/{NAME}/Echo")
    calls = [echo.future(b"") for _ in range(500)]
    assert Counter(str(call.exception() or "answered") for call in calls) == {"answered": 500}


def test_a_call_that_is_given_up_counts_no_more(
    services: ServiceLab, replicas: list[GrpcServer], to_service: grpc.Channel
) -> None:
    services.use("one")
    ends_with_the_app(to_service, replicas[0])
    until(lambda: services.balancer.connections("c/one") == 0, "nothing is under way")


def test_a_stream_stays_with_a_replica_that_is_drained(
    services: ServiceLab, replicas: list[GrpcServer], to_service: grpc.Channel
) -> None:
    services.use("one")
    questions: queue.Queue[bytes | None] = queue.Queue()
    answers = to_service.stream_stream(f"/{NAME}/Talk")(iter(questions.get, None))
    questions.put(b"a")
    assert next(answers) == b"one a"
    services.use("one", "two")
    draining = services.drained("one", 600.0, threading.Event())
    until(lambda: bool(draining.told), "it is told of")
    assert set(draining.told) == {1} and not draining.over, "it is told now and then"
    assert {to_service.unary_unary(f"/{NAME}/Echo")(b"") for _ in range(4)} == {b"two "}
    questions.put(b"b")
    assert next(answers) == b"one b"
    questions.put(None)
    assert [*answers] == []
    until(lambda: draining.over, "it is drained")
    assert draining.left == 0


def test_the_next_replica_is_called_where_one_is_not_reached(
    services: ServiceLab, replicas: list[GrpcServer], to_service: grpc.Channel
) -> None:
    services.world.refused.add("one")
    try:
        assert {to_service.unary_unary(f"/{NAME}/Echo")(b"") for _ in range(8)} == {b"two "}
    finally:
        services.world.refused.clear()


def test_where_no_replica_is_left_calls_may_be_tried_again(
    services: ServiceLab, to_service: grpc.Channel
) -> None:
    services.use()
    with pytest.raises(grpc.RpcError) as failed:
        to_service.unary_unary(f"/{NAME}/Echo")(b"")
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert failed.value.details() == "This app does not answer"


def test_behind_a_proxy_that_ends_tls(server: GrpcServer, apps_without_tls: AppLab) -> None:
    with channel(apps_without_tls, tls=False) as to_app:
        assert to_app.unary_unary(f"/{NAME}/Echo")(b"a", metadata=TOKEN) == b"one a"
        with pytest.raises(grpc.RpcError) as failed:
            to_app.unary_unary(f"/{NAME}/Echo")(b"a")
        assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_browsers_hear_of_no_websockets_by_http2(apps: AppLab) -> None:
    """SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441): without it they open another connection, by HTTP/1.1."""
    trust = apps.trust()
    trust.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", apps.port), timeout=60) as stream,
        trust.wrap_socket(stream, server_hostname=HOST) as encrypted,
    ):
        encrypted.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        with encrypted.makefile("rb") as answers:
            head = answers.read(9)
            assert head[3] == 4, "its settings come first"
            settings = answers.read(int.from_bytes(head[:3], "big"))
    names = [int.from_bytes(settings[at : at + 2], "big") for at in range(0, len(settings), 6)]
    assert names and 8 not in names
