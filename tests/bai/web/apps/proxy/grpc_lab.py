"""A gRPC server as programs have them, and what calls it through Caddy with TLS. Messages are plain bytes."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc

from bai.web.apps.answers import Notice, notice
from tests.bai.web.apps.app_lab import HOST, Answer, AppLab

NAME = "lab.Talk"
TOKEN = (("authorization", "Bearer good"),)


def only_with_token(path: str, headers: dict[str, str]) -> Answer | None:
    """As the gate answers."""
    if headers.get("authorization") == TOKEN[0][1]:
        return None
    form = "grpc" if headers.get("content-type") == "application/grpc" else "json"
    told = notice(401, Notice("Log in to open this app", ["Send a token: 100 %."]), form=form)
    return told.status, {name.decode(): value.decode() for name, value in told.headers}, told.body


@dataclass
class GrpcServer:
    """Its answers begin with its name. `waiting` counts calls of `Wait` that nobody has cancelled; `go_on`
    lets them answer."""

    name: str
    port: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)
    waiting: list[grpc.ServicerContext] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    deadlines: list[float] = field(default_factory=list)
    headers: dict[str, str | bytes] = field(default_factory=dict)

    def echo(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        self.headers = dict(context.invocation_metadata())
        context.send_initial_metadata((("said-first", self.name),))
        context.set_trailing_metadata((("said-last", "over"), ("bytes-bin", b"\0\xff")))
        return f"{self.name} ".encode() + asked

    def fail(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("said-last", "failed"),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100 % no: Ä")

    def count(self, asked: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"first"
        self.go_on.wait(60)
        for number in range(int(asked)):
            yield b"%d" % number

    def talk(self, asked: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for each in asked:
            yield f"{self.name} ".encode() + each

    def gather(self, asked: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        return b"%d" % sum(map(len, asked))

    def hold(self, asked: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Hears nothing for as long as it does not go on."""
        self.waiting.append(context)
        self.go_on.wait(60)
        return self.gather(asked, context)

    def wait(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        left = context.time_remaining()
        self.deadlines.append(math.inf if left is None else left)
        context.add_callback(self.cancelled.set)
        self.waiting.append(context)
        self.go_on.wait(60)
        return self.name.encode()


@contextlib.contextmanager
def grpc_server(name: str) -> Iterator[GrpcServer]:
    made = GrpcServer(name)
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(made.echo),
        "Fail": grpc.unary_unary_rpc_method_handler(made.fail),
        "Count": grpc.unary_stream_rpc_method_handler(made.count),
        "Talk": grpc.stream_stream_rpc_method_handler(made.talk),
        "Gather": grpc.stream_unary_rpc_method_handler(made.gather),
        "Hold": grpc.stream_unary_rpc_method_handler(made.hold),
        "Wait": grpc.unary_unary_rpc_method_handler(made.wait),
    }
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))
    made.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield made
    finally:
        made.go_on.set()
        server.stop(0).wait()


@contextlib.contextmanager
def channel(apps: AppLab, *, tls: bool = True, port: int = 0) -> Iterator[grpc.Channel]:
    """To the app's name; calls need TOKEN. `port`: what leads there, where that is another one."""
    where = f"127.0.0.1:{port or apps.port}"
    options = [("grpc.default_authority", HOST), ("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0)]
    if tls:
        root = (apps.storage / "pki/authorities/local/root.crt").read_bytes()
        trust = grpc.ssl_channel_credentials(root)
        made = grpc.secure_channel(where, trust, [*options, ("grpc.ssl_target_name_override", HOST)])
    else:
        made = grpc.insecure_channel(where, options)
    with made:
        # Whoever calls does not wait for a connection: the first call would fail where it takes its time.
        grpc.channel_ready_future(made).result(60)
        yield made
