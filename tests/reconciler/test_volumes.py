"""Volumes in plan and apply: made before whoever mounts them, repaired, moved aside when nobody has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.storage.base import TrashedVolume, TrashLocation, VolumeFolder
from providers.storage.nodes import NodeStorage
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyResult
from reconciler.values.state import Actual
from reconciler.values.volume_folders import volume_folders
from schemas.problems.errors.plan import GuardRefused
from schemas.problems.errors.provider import ProviderUnavailable
from tests.reconciler.lab import Lab, action, session, summary

HOST = "apiVersion: bai/v1\nkind: StorageHost\nmetadata: {name: disk}\nspec:"


def volume(name: str, spec: str = "", meta: str = "") -> str:
    return f"""
apiVersion: bai/v1
kind: Volume
metadata: {{name: {name}, project: p{", " + meta if meta else ""}}}
spec: {{{spec}}}
"""


class VolumeLab(Lab):
    """A lab whose volumes are real folders of this machine."""

    storage: NodeStorage

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "disk"
        self.root.mkdir()
        self.storage = NodeStorage(lambda name: None)
        host = (
            f"apiVersion: bai/v1\nkind: StorageHost\nmetadata: {{name: disk}}\nspec: {{root: {self.root}}}\n"
        )
        self.write({"host": host})

    def actual(self) -> Actual:
        wanted = tuple(volume_folders(self.desired()).values())
        return replace(super().actual(), volumes=self.storage.observe(wanted))

    def apply(self, plan: Plan | None = None) -> ApplyResult:
        return super().apply(load_plan(dump_plan(plan or self.plan())))

    def trashed(self) -> tuple[TrashedVolume, ...]:
        return self.storage.trashed(TrashLocation("disk", "n1", str(self.root)))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[VolumeLab]:
    made = VolumeLab(tmp_path)
    yield made
    made.store.close()


DATA = "Volume/p/data"
MOUNTING = session("train", "mounts: [{volume: data, path: /data, subPath: runs/1}]")


def test_a_volume_is_made_before_whoever_mounts_it(lab: VolumeLab) -> None:
    lab.write({"data": volume("data", 'mode: "0750"'), "train": MOUNTING})
    plan = lab.plan()
    assert DATA in action(plan, "Session/p/train").depends_on
    [mount] = action(plan, "Session/p/train").after.specs[0].mounts  # type: ignore[union-attr]
    assert (mount.source, mount.root) == (f"{lab.root}/p/data/runs/1", str(lab.root))
    assert summary(lab.converge()) == {}
    assert (lab.root / "p" / "data").stat().st_mode & 0o7777 == 0o750


def test_what_is_different_is_shown_and_repaired(lab: VolumeLab) -> None:
    lab.write({"data": volume("data", 'mode: "0750"')})
    lab.converge()
    (lab.root / "p" / "data").chmod(0o777)
    plan = lab.plan()
    assert [(d.resource, d.what) for d in plan.drifts] == [(DATA, "has mode 0777 instead of 0750")]
    assert summary(plan) == {DATA: "update"}
    assert summary(lab.converge()) == {}
    (lab.root / "p" / "data").rmdir()
    assert [d.what for d in lab.plan().drifts] == ["is gone"]
    assert summary(lab.converge()) == {}
    assert (lab.root / "p" / "data").is_dir()


def test_a_quota_that_nobody_holds_is_said(lab: VolumeLab) -> None:
    lab.write({"data": volume("data", "quota: 10GB")})
    plan = lab.plan()
    warnings = action(plan, DATA).warnings
    seen = (lab.actual().volumes or {})[DATA]
    if not seen.unheld:
        pytest.skip("this machine's temporary files are on a file system with project quotas")
    assert warnings == (f"the quota of 10GB is not enforced: {seen.unheld}",)
    assert summary(lab.converge()) == {}


def test_deleting_a_document_moves_the_folder_aside(lab: VolumeLab) -> None:
    lab.write({"data": volume("data")})
    lab.converge()
    (lab.root / "p" / "data" / "file").write_text("x")
    lab.drop("data")
    plan = lab.plan()
    assert action(plan, DATA).why.endswith("its folder goes to the trash of disk")
    assert summary(lab.converge()) == {}
    [entry] = lab.trashed()
    assert (entry.volume, entry.path, entry.host) == (DATA, "p/data", "disk")
    assert entry.document is not None
    assert (lab.root / ".bai-trash" / entry.entry / "data" / "file").read_text() == "x"


def test_a_volume_whose_session_runs_on_is_not_deleted(lab: VolumeLab) -> None:
    lab.write({"data": volume("data"), "train": MOUNTING})
    lab.converge()
    lab.drop("data", "train")
    alone = lab.plan(targets=(DATA,))
    assert summary(alone) == {}
    assert f"{DATA} is not deleted while Session/p/train has it mounted" in alone.warnings
    both = lab.plan()
    assert action(both, DATA).depends_on == ("Session/p/train",)
    assert summary(lab.converge()) == {}
    assert len(lab.trashed()) == 1


def test_a_volume_goes_after_the_session_that_no_longer_mounts_it(lab: VolumeLab) -> None:
    lab.write({"data": volume("data"), "train": MOUNTING})
    lab.converge()
    lab.drop("data")
    lab.write({"train": session("train")})
    plan = lab.plan()
    assert summary(plan) == {DATA: "delete", "Session/p/train": "replace"}
    assert "Session/p/train" in action(plan, DATA).depends_on
    assert summary(lab.converge()) == {}


def test_a_protected_volume_stays(lab: VolumeLab) -> None:
    lab.write({"data": volume("data", meta='annotations: {bai/protect: "true"}')})
    lab.converge()
    lab.drop("data")
    assert lab.plan(destroy=True).violations
    with pytest.raises(GuardRefused):
        lab.apply()
    assert (lab.root / "p" / "data").is_dir()


def test_a_root_that_is_not_mounted_starts_nobody(lab: VolumeLab) -> None:
    host = (lab.folder / "host.yaml").read_text().replace("root:", "fileSystems: [nfs4], root:")
    lab.write({"host": host, "data": volume("data"), "train": MOUNTING})
    plan = lab.plan()
    assert any("is not mounted" in warning for warning in action(plan, DATA).warnings)
    outcomes = {each.action: each.outcome for each in lab.apply(plan).results}
    assert (outcomes[DATA], outcomes["Session/p/train"]) == ("failed", "skipped")
    assert list(lab.root.iterdir()) == []
    assert lab.world.kernels == {}


def test_one_that_was_mounted_and_no_longer_is_starts_nobody(lab: VolumeLab) -> None:
    lab.write({"data": volume("data")})
    lab.converge()
    host = (lab.folder / "host.yaml").read_text().replace("root:", "fileSystems: [nfs4], root:")
    lab.write({"host": host, "train": MOUNTING})
    plan = lab.plan()
    assert "cannot be used" in action(plan, DATA).why
    outcomes = {each.action: each.outcome for each in lab.apply(plan).results}
    assert outcomes["Session/p/train"] == "skipped"


def test_another_path_leaves_the_data_and_says_so(lab: VolumeLab) -> None:
    lab.write({"data": volume("data")})
    lab.converge()
    lab.write({"data": volume("data", "path: elsewhere")})
    plan = lab.plan()
    old, new = lab.root / "p" / "data", lab.root / "elsewhere"
    assert action(plan, DATA).warnings == (f"what is in {old} stays there: move it to {new} yourself",)
    assert summary(lab.converge()) == {}
    assert old.is_dir()
    assert new.is_dir()


def test_killed_between_moving_and_forgetting(lab: VolumeLab) -> None:
    lab.write({"data": volume("data")})
    lab.converge()
    lab.drop("data")

    class Dying(NodeStorage):
        def trash(self, folder: VolumeFolder, record: TrashedVolume) -> None:
            super().trash(folder, record)
            raise KeyboardInterrupt

    lab.storage = Dying(lambda name: None)
    with pytest.raises(KeyboardInterrupt):
        lab.apply()
    lab.storage = NodeStorage(lambda name: None)
    assert summary(lab.plan()) == {DATA: "delete"}
    assert summary(lab.converge()) == {}
    assert len(lab.trashed()) == 1


def test_a_node_that_cannot_be_reached_is_tried_again(lab: VolumeLab) -> None:
    lab.write({"data": volume("data")})

    class Away(NodeStorage):
        left = 2

        def make(self, folder: VolumeFolder) -> None:
            if self.left:
                self.left -= 1
                raise ProviderUnavailable(provider="n1", why="no route")
            super().make(folder)

    lab.storage = Away(lambda name: None)
    assert lab.apply().ok
    assert (lab.root / "p" / "data").is_dir()


def test_sessions_run_where_their_local_disks_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=3)
    host = f"{HOST} {{root: /srv/x, node: n2}}\n"
    lab.write({"host": host, "data": volume("data"), "train": MOUNTING})
    after = action(lab.plan(), "Session/p/train").after
    assert after is not None and after.placement is not None
    assert [part.node for part in after.placement.kernels] == ["n2"]
    lab.store.close()


def test_nothing_is_made_where_nobody_looks_after_folders(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    host = f"{HOST} {{root: {tmp_path}/x}}\n"
    lab.write({"host": host, "data": volume("data")})
    assert summary(lab.converge()) == {}
    assert not (tmp_path / "x").exists()
    lab.store.close()
