"""Traces go to a real receiver of OTLP, as spans within spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from bai.tracing import tracer_from_environment
from providers.fake import Fault
from tests.bai.web.lab import PATIENCE, Lab
from tests.reconciler.lab import session


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Span]]:
    """A receiver, which the environment names, and what it has got."""
    found: list[Span] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", f"{PATIENCE:.0f}")
    yield found
    server.shutdown()
    server.server_close()


def test_passes_are_traced(tmp_path: Path, received: list[Span]) -> None:
    import os

    traces = tracer_from_environment(os.environ)
    assert traces is not None
    lab = Lab(tmp_path)
    lab.hub.add_stages(traces)
    lab.write("a", session("a"))
    lab.world.inject(Fault("create", failure="refused"))
    lab.once()
    traces.close()
    lab.close()
    by_id = {span.span_id: span for span in received}

    def above(span: Span) -> list[str]:
        found = [span.name]
        while span.parent_span_id:
            span = by_id[span.parent_span_id]
            found.append(span.name)
        return found

    ways = {" < ".join(above(span)) for span in received}
    assert {"pass", "observe < pass", "plan < pass", "apply < pass"} <= ways
    assert "step create < action create < apply < pass" in ways
    assert len({span.trace_id for span in received}) == 1
    failed = [span for span in received if span.status.code == Status.STATUS_CODE_ERROR]
    assert any(span.name == "step create" and "injected" in span.status.message for span in failed)
    attributes = {each.key: each.value.string_value for each in failed[0].attributes}
    assert attributes["bai.cluster"] == "here" and attributes["bai.resource"] == "Session/p/a"


def test_nobody_asked_for_traces() -> None:
    assert tracer_from_environment({}) is None
    assert (
        tracer_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})
        is None
    )
