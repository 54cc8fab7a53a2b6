"""Replicas on one node's own network listen at ports of their own."""

from __future__ import annotations

from pathlib import Path

from tests.reconciler.lab import BASE, Lab, action, session
from tests.reconciler.services.lab import service

PORTS = "ports: [{name: api, port: 8000}]"


def made(folder: Path) -> Lab:
    lab = Lab(folder, nodes=1)
    lab.write({"base": BASE.replace("{provider: fake}", "{provider: process}")})
    return lab


def ports(lab: Lab, *, of: str = "web-") -> dict[str, int]:
    """Each replica's, as its program is told."""
    found = {}
    for each in lab.plan().actions:
        if each.id.startswith(f"Session/p/{of}") and each.verb == "create":
            (spec,) = each.after.specs  # type: ignore[union-attr]
            found[each.id] = int(spec.env["BAI_PORT_API"])
    return found


def test_each_native_replica_of_a_node_has_a_port_of_its_own(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"web": service("replicas: 3", template=PORTS)})
    found = sorted(ports(lab).values())
    assert len(set(found)) == 3 and found[0] == 8000 and found[1] >= 20_000 and found[2] < 30_000
    lab.apply(lab.plan())
    held = {
        identity: record.placement.kernels[0].listening(8000)
        for identity, record in lab.store.recorded("here").items()
        if record.placement is not None
    }
    assert sorted(held.values()) == found, "who asks a replica knows where"


def test_who_comes_later_leaves_the_others_theirs(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"web": service("replicas: 1", template=PORTS)})
    before = ports(lab)
    lab.apply(lab.plan())
    lab.write({"web": service("replicas: 2", template=PORTS)})
    (added,) = ports(lab).values()
    assert [*before.values()] == [8000] and added >= 20_000


def test_a_native_session_that_is_no_replica_listens_where_it_says(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"own": session("own", PORTS)})
    (found,) = ports(lab, of="own").values()
    (spec,) = action(lab.plan(), "Session/p/own").after.specs  # type: ignore[union-attr]
    assert found == 8000 and spec.network.mode == "default"
