"""A cluster as its server shows it to whoever is logged in."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tenacity import Retrying, retry_if_exception_type, wait_exponential

from bai.remote.client import ApiClient
from bai.remote.contexts import Context, load_contexts, locked_contexts, save_contexts
from bai.remote.event_stream import StreamMessage, read_messages
from bai.remote.identity_provider import IdentityProvider, expires_at
from bai.render.resources.events import parse_event
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.server import NotLoggedIn, ServerError, ServerUnreachable
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.facts.kernel_usage import UsageFacts
    from bai.queries.models import Query
    from bai.render.printout import Printout
    from reconciler.values.records import Event

RENEW_BEFORE = 60.0
"""Seconds before the end of a token at which the next one is got."""
SILENCE = 60.0
"""Seconds after which a stream that says nothing is taken for dead; the server says something every 15 s."""
RECONNECT, LONGEST_RECONNECT = 1.0, 30.0
"""Seconds until a stream that ended is asked for again: at first, and at most while nobody answers."""


class RemoteCluster:
    """Everything raises ServerError."""

    def __init__(self, client: ApiClient, cluster: str) -> None:
        self.client, self.cluster = client, cluster
        self._path = f"/api/v1/clusters/{quote(cluster, safe='')}"

    def read(self, query: Query) -> Printout:
        """What a reading command prints."""
        from pydantic import TypeAdapter, ValidationError

        from bai.render.printout import Printout, Table

        path = f"{self._path}/commands/{query.command}"
        found = self.client.get(path, query.model_dump(exclude_defaults=True))
        why = "its answer is not as this version of bai knows it; are both of the same version?"
        try:
            printout = TypeAdapter(Printout).validate_python(found)
        except ValidationError:
            raise ServerError(server=self.client.server, why=why) from None
        tables = (block for block in printout.blocks if isinstance(block, Table))
        if any(len(row) != len(table.columns) for table in tables for row in table.rows):
            raise ServerError(server=self.client.server, why=why)
        return printout

    def session(self, name: str) -> Mapping[str, Any]:
        """One session as `bai get --format json` has it. Raises NotOnServer, too."""
        return self._item("Session", name)

    def service(self, name: str) -> Mapping[str, Any]:
        """One service, likewise."""
        return self._item("Service", name)

    def _item(self, kind: str, name: str) -> Mapping[str, Any]:
        from bai.queries.models import GetQuery

        found = self.read(GetQuery.of(kind=kind, name=name, form="json")).document.get("items")
        item = found[0] if isinstance(found, list) and found else None
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            why = f"its answer about one {kind.lower()} has none"
            raise ServerError(server=self.client.server, why=why)
        return item

    def usage(self) -> UsageFacts:
        """What containers have used by now."""
        from pydantic import ValidationError

        from bai.queries.facts.kernel_usage import UsageFacts

        try:
            return UsageFacts.model_validate(self.client.get(f"{self._path}/usage", {}))
        except ValidationError:
            why = "its answer about what sessions use is not as this version of bai knows it"
            raise ServerError(server=self.client.server, why=why) from None

    def order(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """`suspend`, `resume`, `approve`, `rollback`; gives what holds now."""
        found = self.client.post(f"{self._path}/{name}", body)
        return found if isinstance(found, dict) else {}

    def order_rollout(self, identity: str, order: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """`undo`, `resume` of a service; gives what holds now."""
        ref = ref_of(identity)
        names = "/".join(quote(name, safe="") for name in (ref.project, ref.name))
        return self.order(f"services/{names}/{order}", body)

    def share(self, project: str, session: str, app: str, seconds: int) -> Mapping[str, Any]:
        """A link that opens an app for so long: its `url`, and `until` when."""
        names = "/".join(quote(name, safe="") for name in (project, session, app))
        found = self.client.post(f"{self._path}/apps/{names}/links", {"for": seconds})
        return found if isinstance(found, dict) else {}

    def logs(self, project: str, session: str, params: Mapping[str, Any], *, follow: bool) -> Iterator[bytes]:
        """What a container writes, as it comes."""
        path = f"{self._path}/logs/{quote(project, safe='')}/{quote(session, safe='')}"
        silence = None if follow else SILENCE
        with self.client.stream(path, {**params, "follow": follow}, silence=silence, headers={}) as pieces:
            yield from pieces

    def events(self) -> RemoteEvents:
        """What happens from now on."""
        return RemoteEvents(self)

    def messages(self) -> Generator[StreamMessage]:
        """News from now on, without an end. A stream that ends is asked for again, from where it was; the
        first one has to be had."""
        last, first = "", True
        while True:
            for message in self._one_stream(last, first=first):
                last, first = message.id or last, False
                yield message
            time.sleep(RECONNECT)

    def _one_stream(self, last: str, *, first: bool) -> Generator[StreamMessage]:
        """What comes after the message `last`, until the stream ends; asked for until it is had, unless it is
        the `first`."""
        headers = {"Last-Event-ID": last} if last else {}
        with contextlib.ExitStack() as stack:

            def connect() -> Iterator[bytes]:
                path = f"{self._path}/stream"
                return stack.enter_context(self.client.stream(path, {}, silence=SILENCE, headers=headers))

            again = Retrying(
                retry=retry_if_exception_type(ServerUnreachable),
                wait=wait_exponential(multiplier=RECONNECT, max=LONGEST_RECONNECT),
            )
            pieces = connect() if first else again(connect)
            try:
                yield from read_messages(pieces)
            except ServerUnreachable:
                return
            except ValueError as error:
                raise ServerError(server=self.client.server, why=f"its stream has {error}") from None


class RemoteEvents:
    """What happens from now on. `begin` connects, so that nothing is missed from there."""

    def __init__(self, cluster: RemoteCluster) -> None:
        self._cluster, self._messages = cluster, cluster.messages()

    def begin(self) -> None:
        next(self._messages)  # The first one says that others follow.

    def close(self) -> None:
        self._messages.close()

    def __iter__(self) -> Iterator[Event]:
        for message in self._messages:
            if message.kind == "event":
                yield self._parsed(message.data)

    def _parsed(self, data: str) -> Event:
        try:
            return parse_event(json.loads(data))
        except (ValueError, TypeError, AttributeError):
            why = "an event in its stream is not as this version of bai knows it"
            raise ServerError(server=self._cluster.client.server, why=why) from None


def open_cluster(name: str, context: Context, cluster: str | None) -> RemoteCluster:
    """The cluster of a context; `cluster`: another one of the same server. Raises CommandError,
    ServerError."""
    wanted = cluster or context.cluster
    if not wanted:
        raise CommandError(
            why=f"context {name} names no cluster", hint="give --cluster NAME, or log in again with it"
        )
    client = ApiClient(context.server, ca=context.ca, token=lambda: current_token(name))
    return RemoteCluster(client, wanted)


def current_token(name: str) -> str:
    """The token to show now, renewed where it is over. Raises NotLoggedIn, LoginFailed."""
    context = load_contexts().named(name)
    login = f"bai login {context.server}"
    if context.oidc is None:
        if context.token is None:
            raise NotLoggedIn(server=context.server, why="the context has no token", hint=login)
        return context.token
    if time.time() < expires_at(context.oidc.idToken) - RENEW_BEFORE:
        return context.oidc.idToken
    with locked_contexts():
        contexts = load_contexts()
        context = contexts.named(name)
        held = context.oidc
        if held is None or time.time() < expires_at(held.idToken) - RENEW_BEFORE:
            return held.idToken if held is not None else ""  # Somebody else has just renewed it.
        if held.refreshToken is None:
            raise NotLoggedIn(server=context.server, why="the login is over", hint=login)
        made = IdentityProvider(held.issuer, held.clientId, ca=held.ca).renew(held.refreshToken)
        renewed = held.model_copy(update={"idToken": made.id, "refreshToken": made.refresh})
        changed = {**contexts.contexts, name: context.model_copy(update={"oidc": renewed})}
        save_contexts(contexts.model_copy(update={"contexts": changed}))
        return made.id
