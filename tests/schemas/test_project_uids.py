"""Each project has a Linux user of its own on a cluster's machines."""

from __future__ import annotations

from pathlib import Path

from schemas.loading.loader import load_directory

CLUSTER = "apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: %s}\nspec: {provider: process%s}\n"
PROJECT = "---\napiVersion: bai/v1\nkind: Project\nmetadata: {name: %s}\nspec: {%s}\n"


def test_it_is_drawn_from_the_range_by_name_and_stays(tmp_path: Path) -> None:
    names = [f"project-{number}" for number in range(300)]
    text = CLUSTER % ("lab", "") + "".join(PROJECT % (name, "") for name in names)
    (tmp_path / "all.yaml").write_text(text)
    repository = load_directory(tmp_path)
    drawn = {name: repository.uid_of("lab", name) for name in names}
    assert len(set(drawn.values())) == len(names)
    assert all(1_900_000_000 <= uid < 2_000_000_000 for uid in drawn.values())
    assert drawn["project-7"] == 1_951_731_103


def test_a_clusters_range_and_a_projects_own_number_count(tmp_path: Path) -> None:
    text = CLUSTER % ("lab", ", sessionUids: {first: 200000, count: 50}") + "---\n" + CLUSTER % ("far", "")
    (tmp_path / "all.yaml").write_text(text + PROJECT % ("own", "uid: 4242") + PROJECT % ("drawn", ""))
    repository = load_directory(tmp_path)
    assert repository.uid_of("lab", "own") == repository.uid_of("far", "own") == 4242
    assert 200_000 <= repository.uid_of("lab", "drawn") < 200_050 < repository.uid_of("far", "drawn")
