"""What listens on a node: two services of a profile cannot have the same port at the same address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec

_EVERYWHERE = frozenset(("0.0.0.0", "::", "*"))


@dataclass(frozen=True, slots=True)
class _Listener:
    """`listen`: its addresses; empty for all of them."""

    at: Loc
    port: int
    listen: frozenset[str]

    def meets(self, other: _Listener) -> bool:
        anywhere = not (self.listen and other.listen) or _EVERYWHERE & (self.listen | other.listen)
        return self.port == other.port and bool(anywhere or self.listen & other.listen)


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Later sections give way: their ports are named as the wrong ones."""
    for first, second in combinations(_listeners(spec), 2):
        if first.meets(second):
            taken = ".".join(map(str, first.at[1:]))
            message = f"port {second.port} is taken by {taken} of the same node"
            yield Issue(second.at, message, "give one of them another port", "BAI-V034")


def _listeners(spec: NodeProfileSpec) -> Iterator[_Listener]:
    if spec.monitoring is not None:
        for name, exporter in (
            ("nodeExporter", spec.monitoring.node_exporter),
            ("dcgmExporter", spec.monitoring.dcgm_exporter),
        ):
            if exporter is not None:
                yield _listener(("monitoring", name), exporter.port, exporter.listen)
    if spec.mirror is not None:
        yield _listener(("mirror",), spec.mirror.port)
        if spec.mirror.registry is not None:
            yield _listener(("mirror", "registry"), spec.mirror.registry.port)
    if spec.app_proxy is not None:
        yield _listener(("appProxy",), spec.app_proxy.port, spec.app_proxy.listen)
        if spec.app_proxy.tls == "acme":
            yield _Listener(
                ("spec", "appProxy", "permissionPort"),
                spec.app_proxy.permission_port,
                frozenset({"127.0.0.1"}),
            )
    plane = spec.control_plane
    if plane is None:
        return
    if plane.postgresql is not None:
        yield _listener(("controlPlane", "postgresql"), plane.postgresql.port, *plane.postgresql.listen)
    if plane.registry is not None:
        yield _listener(("controlPlane", "registry"), plane.registry.port, plane.registry.listen)
    if plane.bai is not None and plane.bai.api is not None:
        yield _listener(("controlPlane", "bai", "api"), plane.bai.api.port, plane.bai.api.listen)


def _listener(section: Loc, port: int, *listen: str | None) -> _Listener:
    addresses = {each for each in listen if each}
    if "localhost" in addresses:
        addresses |= {"127.0.0.1", "::1"}
    return _Listener(("spec", *section, "port"), port, frozenset(addresses))
