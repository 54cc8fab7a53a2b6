"""Which ports of their AppProxy's host apps have is written down with its document, and whenever it changes.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.plan.actions.sides import before_side
from reconciler.plan.context import PlanContext
from reconciler.values.apps.ports import PortMap, port_map
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import Change, app_port
from reconciler.values.plan import Action
from reconciler.values.sides import AppProxySide
from schemas.kinds.app_proxy import AppProxy

_MOST_NOTES = 8
_CAUSE = Cause(CauseCode.APP_PORTS, "apps come to have ports, or need theirs no more")


def add_app_ports(context: PlanContext, actions: Iterable[Action]) -> tuple[list[Action], tuple[str, ...]]:
    """The actions, that of the AppProxy with the ports; and which apps have none, and why."""
    proxy = context.desired.repository.app_proxy_of(context.desired.cluster)
    if proxy is None or context.destroy:
        return list(actions), ()
    ports = port_map(context.desired, context.actual)
    found = [
        _with_ports(context, proxy, ports, each) if each.id == proxy.identity else each for each in actions
    ]
    return found, tuple(_notes(ports))


def _with_ports(context: PlanContext, proxy: AppProxy, ports: PortMap, action: Action) -> Action:
    existing = context.actual.existing.get(action.id)
    before = before_side(existing) if existing is not None else None
    known = before.app_ports if isinstance(before, AppProxySide) else {}
    if not isinstance(action.after, AppProxySide):
        return action
    changes = tuple(_changes(known, ports.numbers, proxy))
    if action.verb != "no-op":
        after = replace(action.after, app_ports=ports.numbers)
        return replace(action, after=after, changes=(*action.changes, *changes))
    if not changes or not isinstance(before, AppProxySide):
        return action
    return replace(
        action, before=before, after=replace(before, app_ports=ports.numbers), changes=changes, cause=_CAUSE
    )


def _changes(known: Mapping[str, int], wanted: Mapping[str, int], proxy: AppProxy) -> Iterator[Change]:
    for key in sorted({*known, *wanted}):
        if known.get(key) != wanted.get(key):
            yield app_port(key, _place(proxy, known.get(key)), _place(proxy, wanted.get(key)))


def _place(proxy: AppProxy, number: int | None) -> str | None:
    """Where an app with this port is reached, as its URL; the number alone where that is no port any more."""
    ports = proxy.spec.ports
    for kind, (first, last) in ports.ranges.items() if ports is not None else ():
        if ports is not None and number is not None and first <= number <= last:
            return ports.url_of(kind, number)
    return str(number) if number is not None else None


def _notes(ports: PortMap) -> Iterator[str]:
    for key, why in list(ports.refusals.items())[:_MOST_NOTES]:
        identity, _, name = key.partition(" ")
        yield f"{name} of {identity} has no port: {why}"
    if len(ports.refusals) > _MOST_NOTES:
        yield f"{len(ports.refusals) - _MOST_NOTES} more apps have no port"
