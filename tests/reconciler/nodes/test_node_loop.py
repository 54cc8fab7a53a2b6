"""The loop over a cluster whose nodes are provisioned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.fake import FakeProvider
from providers.fake_provisioner import FakeProvisioner, NodeFault
from reconciler.workspace.workspace import Workspace
from tests.reconciler.lab import session
from tests.reconciler.looped import Looped
from tests.reconciler.nodes.lab import NodeLab, profile


class House(Looped):
    """A `NodeLab`'s documents and machines, and a loop over them."""

    def __init__(self, folder: Path) -> None:
        self.lab = NodeLab(folder, rules="canary: false")
        self.lab.store.close()
        world = self.lab.world
        workspace = Workspace.open(self.lab.folder, state=folder / "loop.db", clock=world.clock)
        workspace.provider = FakeProvider(world)
        workspace.node_provisioning.provisioner = FakeProvisioner(self.lab.machines)
        super().__init__(workspace, world)

    def once(self, seconds: float = 1) -> list[str]:
        return super().once(seconds)

    def provisioned(self) -> list[int]:
        return [self.lab.machines.nodes[name].provisioned for name in self.lab.names]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def test_one_pass_goes_through_all_waves_and_then_it_is_quiet(house: House) -> None:
    house.lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    lines = house.once()
    assert "provisioning n1" in lines and "provisioned Node/n3: never provisioned" in lines
    assert any(line.startswith("created Session/p/a") for line in lines) and house.good
    assert not house.once()
    house.lab.write({"profile": profile(swappiness=2)})
    house.once()
    assert house.provisioned() == [1, 2, 2]  # the session may not move, and keeps its node
    assert any(line.startswith("n1 is to be provisioned and waits: Session/p/a") for line in house.lines)


def test_what_fails_is_left_alone_for_a_while_and_tried_at_once_when_the_profile_changes(
    house: House,
) -> None:
    house.once()
    house.lab.machines.inject(NodeFault("n1", "half", times=2, why="no such package"))
    house.lab.write({"profile": profile(swappiness=2)})
    lines = house.once()
    assert any("failed Node/n1" in line and "tried again in 30s" in line for line in lines)
    assert house.provisioned() == [1, 1, 1] and not house.good
    lines = house.once()
    assert any("n2 is to be provisioned and waits: n1, whose provisioning failed" in line for line in lines)
    assert house.provisioned() == [1, 1, 1]
    assert any("tried again in 1m" in line for line in house.once(40))
    house.lab.write({"profile": profile(swappiness=3)})
    house.once()
    assert house.provisioned() == [2, 2, 2] and house.good


def test_drift_is_said_and_repaired_and_what_does_not_stay_is_not_repaired_in_circles(house: House) -> None:
    house.once()
    machines = house.lab.machines
    machines.drift("n2", "file /etc/hosts", "a", "b")
    assert "drift of Node/n2: file /etc/hosts is b, sealed a" in house.once()
    assert house.provisioned() == [1, 2, 1]
    machines.at = lambda node, moment: (
        machines.drift(node, "file /etc/hosts", "a", "b") if moment == "after" else None
    )
    machines.drift("n2", "file /etc/hosts", "a", "b")
    house.once(1000)
    first = house.provisioned()[1]
    house.once(5)
    assert house.provisioned()[1] == first <= 4


def test_a_loop_that_only_looks_provisions_nothing(house: House) -> None:
    house.loop = house.make(observe_only=True)
    lines = house.once()
    assert "would provision Node/n1: never provisioned" in lines
    assert house.provisioned() == [0, 0, 0]
