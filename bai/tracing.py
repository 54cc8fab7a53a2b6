"""OpenTelemetry traces of passes, where `OTEL_EXPORTER_OTLP_ENDPOINT` says to whom they go.

A span for each pass, and within it for observing, planning, applying, each action and each of its steps. The
other variables of OpenTelemetry (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`,
...) mean what they always mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from reconciler.controller.stages import Stage
from reconciler.values.results import ApplyEvent
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def tracer_from_environment(environment: Mapping[str, str]) -> StageTracer | None:
    """None where no traces are asked for. Raises CommandError when what makes them is not installed."""
    if not any(environment.get(name) for name in _ENDPOINT_VARIABLES):
        return None
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise CommandError(
            why=f"traces are asked for, and {error.name} is not installed", hint="pip install 'bai[tracing]'"
        ) from None
    name = environment.get("OTEL_SERVICE_NAME", "bai")
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return StageTracer(provider)


class StageTracer:
    """Spans of what loops are at. Each loop calls from its own thread."""

    def __init__(self, provider: TracerProvider) -> None:
        from bai import __version__

        self._provider = provider
        self._tracer = provider.get_tracer("bai", __version__)
        self._open: dict[tuple[str, str, str], Span] = {}

    @contextlib.contextmanager
    def stage(self, stage: Stage, cluster: str) -> Iterator[None]:
        with self._tracer.start_as_current_span(stage, attributes={"bai.cluster": cluster}):
            try:
                yield
            finally:
                if stage == "apply":
                    self._end_all(cluster)

    def event(self, event: ApplyEvent, cluster: str) -> None:
        if event.kind not in ("action", "step"):
            return
        key = (cluster, event.action, event.step)
        if event.state == "started":
            self._begin(key, event)
        elif (span := self._open.pop(key, None)) is not None:
            _end_span(span, event)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _begin(self, key: tuple[str, str, str], event: ApplyEvent) -> None:
        from opentelemetry.trace import set_span_in_context

        action = self._open.get((key[0], event.action, ""))
        above = set_span_in_context(action) if action is not None and event.step else None
        attributes = {"bai.cluster": key[0], "bai.resource": event.action}
        if event.kernel:
            attributes["bai.kernel"] = event.kernel
        name = event.step.partition(" ")[0] if event.step else event.verb or "action"
        self._open[key] = self._tracer.start_span(
            f"step {name}" if event.step else f"action {name}", above, attributes=attributes
        )

    def _end_all(self, cluster: str) -> None:
        """What an apply that was broken off had begun."""
        for key in [key for key in self._open if key[0] == cluster]:
            self._open.pop(key).end()


def _end_span(span: Span, event: ApplyEvent) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("bai.outcome", event.state)
    if event.state == "failed":
        span.set_status(Status(StatusCode.ERROR, event.error))
    span.end()
