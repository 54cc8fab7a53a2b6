"""gRPC through both proxies: the node's, with TLS, and that of bai behind it."""

from __future__ import annotations

import contextlib
import queue
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

from tests.bai.web.apps.app_lab import Gate
from tests.bai.web.apps.proxy.grpc_lab import (
    NAME,
    TOKEN,
    GrpcServer,
    channel,
    grpc_server,
    only_with_token,
)
from tests.bai.web.apps.proxy.node_lab import NodeLab, node_lab
from tests.lab.relay import Relay
from tests.waiting import until

CLIENTS = ("127.0.0.2", "127.0.0.3")


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcServer]:
    with grpc_server("one") as made:
        yield made


@pytest.fixture(scope="module")
def node(server: GrpcServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeLab]:
    gate = Gate(server.port, protocol="grpc", answer=only_with_token)
    with node_lab(tmp_path_factory.mktemp("n"), gate, tls=True) as made:
        yield made


@contextlib.contextmanager
def client_at(address: str, node: NodeLab) -> Iterator[grpc.Channel]:
    relay = Relay(("127.0.0.1", 0), "", ("127.0.0.1", node.lab.port), source=address)
    try:
        with channel(node.lab, port=relay.port) as made:
            yield made
    finally:
        relay.close()


@pytest.fixture(scope="module")
def clients(node: NodeLab) -> Iterator[dict[str, grpc.Channel]]:
    """By the addresses where they are."""
    with contextlib.ExitStack() as ends:
        yield {address: ends.enter_context(client_at(address, node)) for address in CLIENTS}


@pytest.fixture
def to_app(clients: dict[str, grpc.Channel]) -> grpc.Channel:
    return clients[CLIENTS[0]]


def refusal(call: grpc.UnaryUnaryMultiCallable, **options: object) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as failed:
        call(b"", timeout=60, **options)
    return failed.value


def test_calls_go_through_with_trailers_and_failures(to_app: grpc.Channel, server: GrpcServer) -> None:
    asked = b"x" * 3_000_000
    answer, call = to_app.unary_unary(f"/{NAME}/Echo").with_call(
        asked, metadata=(*TOKEN, ("bai-upstream", "elsewhere"), ("x-forwarded-for", "6.6.6.6"))
    )
    assert answer == b"one " + asked
    assert dict(call.trailing_metadata()) == {"said-last": "over", "bytes-bin": b"\0\xff"}
    assert server.headers["x-forwarded-for"] == CLIENTS[0]
    assert not {"bai-upstream", "authorization"} & set(server.headers)
    calls = [to_app.unary_unary(f"/{NAME}/Fail").future(b"", metadata=TOKEN) for _ in range(100)]
    assert Counter(each.exception().code() for each in calls) == {grpc.StatusCode.FAILED_PRECONDITION: 100}
    assert {each.exception().details() for each in calls} == {"100 % no: Ä"}


def test_both_sides_talk_in_turns(to_app: grpc.Channel, server: GrpcServer) -> None:
    questions: queue.Queue[bytes | None] = queue.Queue()
    answers = to_app.stream_stream(f"/{NAME}/Talk")(iter(questions.get, None), metadata=TOKEN)
    for word in (b"a", b"b", b"c"):
        questions.put(word)
        assert next(answers) == b"one " + word
    questions.put(None)
    assert [*answers] == []


def test_a_call_that_is_given_up_ends_at_the_app(to_app: grpc.Channel, server: GrpcServer) -> None:
    call = to_app.unary_unary(f"/{NAME}/Wait").future(b"", metadata=TOKEN)
    until(lambda: bool(server.waiting), "the app has it")
    call.cancel()
    until(server.cancelled.is_set, "the app hears of it")
    server.go_on.set()


def test_a_call_without_a_token_is_refused_as_grpc_has_it(to_app: grpc.Channel) -> None:
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        failed = refusal(to_app.unary_unary(f"/{NAME}/Echo"), metadata=metadata)
        assert failed.code() is grpc.StatusCode.UNAUTHENTICATED
        assert failed.details() == "Log in to open this app: Send a token: 100 %."


def test_clients_at_one_time_are_told_by_their_own_addresses(
    node: NodeLab, clients: dict[str, grpc.Channel]
) -> None:
    """A connection between the proxies says who has come: to the gate, which has it for the audit and for
    networks, and to the app."""
    node.lab.gate.asked.clear()
    ends = [queue.Queue[bytes | None]() for _ in clients]
    streams = []
    for (address, to), questions in zip(clients.items(), ends, strict=True):
        metadata = (*TOKEN, ("of-mine", address))
        questions.put(b"a")
        streams.append(to.stream_stream(f"/{NAME}/Talk")(iter(questions.get, None), metadata=metadata))
        assert next(streams[-1]) == b"one a"
    calls = [
        to.unary_unary(f"/{NAME}/Echo").future(b"", metadata=(*TOKEN, ("of-mine", address)))
        for _ in range(50)
        for address, to in clients.items()
    ]
    assert {call.result() for call in calls} == {b"one "}
    for questions, answers in zip(ends, streams, strict=True):
        questions.put(None)
        assert [*answers] == []
    asked = [dict(headers) for _, headers in node.lab.gate.asked]
    assert Counter((each["of-mine"], each["x-forwarded-for"]) for each in asked) == {
        (address, address): 51 for address in CLIENTS
    }


def test_an_app_that_does_not_listen_holds_nobody_else_up(
    node: NodeLab, to_app: grpc.Channel, server: GrpcServer
) -> None:
    """Many people come from one address."""
    server.go_on.clear()
    server.waiting.clear()
    sent: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(200):
            sent.append(number)
            yield b"x" * 100_000

    looks = [0]

    def stands_still() -> bool:
        looks.append(len(sent))
        return looks[-1] == looks[-2]

    held = to_app.stream_unary(f"/{NAME}/Hold").future(pieces(), metadata=TOKEN)
    until(lambda: bool(server.waiting), "the app has it")
    until(stands_still, "no more is taken", pause=0.3)
    with client_at(CLIENTS[0], node) as beside:
        assert beside.unary_unary(f"/{NAME}/Echo")(b"a", metadata=TOKEN, timeout=30) == b"one a"
    assert len(sent) < 200
    server.go_on.set()
    assert held.result() == b"20000000"


def test_where_nobody_is_calls_may_be_tried_again(node: NodeLab) -> None:
    target = node.way_in.readlink()
    with client_at("127.0.0.9", node) as to_app:
        echo = to_app.unary_unary(f"/{NAME}/Echo")
        node.way_in.unlink()
        failed = refusal(echo, metadata=TOKEN)
        assert failed.code() is grpc.StatusCode.UNAVAILABLE
        assert "not reached just now" in (failed.details() or "")
        node.way_in.symlink_to(target)
        assert echo(b"", metadata=TOKEN, timeout=60) == b"one "
