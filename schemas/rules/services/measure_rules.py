"""Whether what an autoscaler is told to look at can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schemas.images.session_images import resolve_session_images
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.repository.repository import Repository
from schemas.rules.services.autoscaling_rules import AT, OF_REQUESTS
from schemas.rules.sessions.request_rules import written_requests
from schemas.values.app_protocols import APP_PROTOCOLS


def measure_rules(repository: Repository, service: Service, pattern: Session) -> Iterator[Issue]:
    """Beside what its replicas are: measures of requests need a port that they come to, and one of GPUs
    needs GPUs."""
    rules = service.spec.autoscaling
    if rules is None:
        return
    spec = resolve_session_images(pattern.spec, repository.images)
    if not any(port.protocol in APP_PROTOCOLS for port in spec.ports):
        for name, field in OF_REQUESTS.items():
            if getattr(rules, name) is not None:
                message = f"{field} is about requests, and the template has no port that they come to"
                hint = "give it a port with protocol http, https or grpc, or measure something else"
                yield Issue((*AT, field), message, hint, "BAI-V034", key=True)
    elif rules.latency is not None and not any(port.protocol == "http" for port in spec.ports):
        message = "latency is seen of answers by plain HTTP, and no port of the template has protocol http"
        yield Issue((*AT, "latency"), message, "measure inFlight, or something else", "BAI-V034", key=True)
    if rules.gpu_utilization is not None and not _asks_for_gpus(pattern, spec.resources.accelerators):
        message = "gpuUtilization is about GPUs, and the template asks for none"
        hint = "ask for some in its resources, or measure something else"
        yield Issue((*AT, "gpuUtilization"), message, hint, "BAI-V034", key=True)


def _asks_for_gpus(pattern: Session, resolved: Mapping[str, int]) -> bool:
    asked = [resolved, *(resources.accelerators for _, resources in written_requests(pattern))]
    return any(amount for each in asked for amount in each.values())
