"""Volumes whose folders are on nodes that are yet to be provisioned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from providers.storage.nodes import NodeStorage
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.encoding.plan_json import dump_plan
from reconciler.values.records import Recorded
from reconciler.values.state import Actual, Existing
from reconciler.values.volume_folders import volume_folders
from tests.reconciler.lab import action, session, summary
from tests.reconciler.nodes.lab import NodeLab

VOLUME = "apiVersion: bai/v1\nkind: Volume\nmetadata: {name: data, project: p}\nspec: {}\n"


class FolderLab(NodeLab):
    """Volumes are folders of n2's disk, which is a folder of this machine."""

    storage: NodeStorage

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "disk"
        self.root.mkdir()
        self.storage = NodeStorage(lambda name: None)
        spec = f"{{root: {self.root}, node: n2}}"
        self.write(
            {"host": f"apiVersion: bai/v1\nkind: StorageHost\nmetadata: {{name: disk}}\nspec: {spec}\n"}
        )
        self.write({"data": VOLUME})

    def actual(self, *, offline: bool = False, check: bool = False) -> Actual:
        wanted = tuple(volume_folders(self.desired()).values())
        return replace(super().actual(offline=offline, check=check), volumes=self.storage.observe(wanted))


def test_who_waits_for_a_volume_is_asked_again_when_it_is_there(tmp_path: Path) -> None:
    """What was found out about a session rests on records of others, too."""
    lab = FolderLab(tmp_path)
    mounts = "mounts: [{volume: data, path: /data}], resources: {cpu: 1, memory: 1GiB}"
    lab.write({"a": session("a", mounts)})
    desired, actual, now = lab.desired(), lab.actual(), lab.world.clock.now()
    before = PlanRequest(desired, actual, now)
    [wait] = lab.plans.plan(before).waits
    assert "cannot be made before" in wait.reasons[0].message
    identity = "Volume/p/data"
    record = Recorded(identity, "here", 1, desired.digests[identity], desired.documents[identity])
    there = Existing(identity, record, "")
    after = replace(before, actual=replace(actual, existing={**actual.existing, identity: there}))
    plan = lab.plans.plan(after)
    assert dump_plan(plan) == dump_plan(make_plan(after))
    assert not any("cannot be made before" in one.reasons[0].message for one in plan.waits)


def test_a_volume_is_made_once_its_node_is_provisioned_and_whoever_mounts_it_waits(tmp_path: Path) -> None:
    lab = FolderLab(tmp_path)
    lab.write({"a": session("a", "mounts: [{volume: data, path: /data}], resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan_nodes()
    assert "Volume/p/data" not in summary(plan)
    [wait] = plan.waits
    assert wait.reasons[0].message == (
        "Volume/p/data cannot be made before n2 is provisioned (never provisioned)"
    )
    assert lab.apply(plan).ok
    plan = lab.plan_nodes()
    assert "Node/n2" in action(plan, "Volume/p/data").depends_on
    assert lab.apply(plan).ok
    assert (lab.root / "p" / "data").is_dir()
    assert lab.apply().ok
    assert lab.place_of("a") == "n2"
    assert not lab.plan_nodes().changes
