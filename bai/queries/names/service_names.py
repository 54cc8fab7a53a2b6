"""Services as people type them where a session, too, could be meant: `service/chat`, `svc/team/chat`."""

from __future__ import annotations

from collections.abc import Collection

from bai.queries.names.kind_names import kind_of
from bai.queries.names.resource_names import is_named, resolve_name
from schemas.values.resource_ref import ref_of


def service_part(name: str) -> str:
    """`service/team/chat` → `team/chat`; empty for what does not begin with that kind."""
    head, _, rest = name.partition("/")
    return rest.strip("/") if kind_of(head) == "Service" else ""


def find_service(name: str, identities: Collection[str]) -> str:
    """The identity of the service that is meant; empty for a name that begins otherwise, or that a session
    has as well (of a project that is called `service`). Raises NoSuchResource, AmbiguousName."""
    rest = service_part(name)
    sessions = (each for each in identities if ref_of(each).kind == "Session")
    if not rest or any(is_named(name, each) for each in sessions):
        return ""
    return resolve_name(rest, identities, "Service")
