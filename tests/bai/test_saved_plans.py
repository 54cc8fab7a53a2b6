"""A plan in a file: shown, drawn on its nodes, and carried out though the documents have changed since."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bai.conftest import Repo

DGX = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100"
BARE = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: declared}
---
apiVersion: bai/v1
kind: Domain
metadata: {name: default}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: first}
spec: {domain: default}
"""


@pytest.fixture
def dgx(tmp_path: Path) -> Repo:
    shutil.copytree(DGX, tmp_path / "dgx", ignore=shutil.ignore_patterns(".bai"))
    return Repo(tmp_path / "dgx", {"COLUMNS": "120"})


@pytest.fixture
def bare(tmp_path: Path) -> Repo:
    (tmp_path / "documents").mkdir()
    repo = Repo(tmp_path / "documents", {"COLUMNS": "120"})
    repo.write("cluster.yaml", BARE)
    return repo


def test_a_saved_plan_is_shown_as_it_was_printed(dgx: Repo, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    printed = dgx.ok("plan", "--offline", "--out", file).out.partition("\nSaved. ")[0]
    dgx.write("sessions.yaml", "")
    assert dgx.ok("show", file).out == printed
    assert "language/pretrain  " in printed and "main1, sub[1-7]  dgx-[01-08]" in printed
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    said = dgx("show", str(broken))
    assert said.code == 1 and "BAI-E" in said.err and "Traceback" not in said.err


def test_a_plan_that_is_neither_file_nor_known_is_told(dgx: Repo) -> None:
    said = dgx("show", "nothing.json")
    assert said.code == 1 and "no file of this name is here either" in said.err


def test_a_node_is_drawn_as_a_plan_leaves_it(dgx: Repo, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    dgx.ok("plan", "--offline", "--out", str(file))
    now = dgx.ok("nodes", "show", "dgx-09", "--offline").out
    assert "gpu . . . ." in now and "holds" not in now
    then = dgx.ok("nodes", "show", "dgx-09", "--offline", "--plan", str(file)).out
    digest = json.loads(file.read_text())["plan"]["digest"][:16]
    assert then.startswith(f"As plan {digest} leaves it:\ndgx-09 (h100)\n")
    assert "1TiB     gpu 0 1 2 3\n" in then and "1TiB     gpu 4 . . .\n" in then
    assert "Session/vision/finetune holds 32 cores, 4 GPUs" in then
    assert "# planned  + in use  x reserved  ! offline  . free" in then
    assert "gpu: a mark for each; a number is a GPU that is planned" in then
    drawn = dgx.ok("nodes", "show", "dgx-09", "--offline", "--plan", str(file), "--format", "json").json
    assert [gpu["use"] for gpu in drawn["use"][1]["gpus"]] == ["new", "free", "free", "free"]


def test_a_plan_of_another_cluster_draws_no_node(dgx: Repo, bare: Repo, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    bare.ok("plan", "--offline", "--out", file)
    said = dgx("nodes", "show", "dgx-09", "--offline", "--plan", file)
    assert said.code == 1 and "the plan is of cluster here, not of dgx" in said.err
    assert "--plan is of a node of the cluster" in dgx("nodes", "show", ".", "--plan", file).err


def test_a_saved_plan_is_carried_out_though_documents_have_changed(bare: Repo, tmp_path: Path) -> None:
    """As docs/review.md says it."""
    file = str(tmp_path / "plan.json")
    bare.ok("plan", "--out", file)
    bare.write("cluster.yaml", BARE.replace("name: first", "name: second"))
    said = bare.ok("apply", file, "--yes").out
    assert "Project/first: created" in said
    assert said.endswith(
        "The documents have changed since this plan was saved. What `bai apply` would do now:\n"
        "Plan: 1 to create, 1 to delete.\n"
    )
    again = bare("apply", file, "--yes")
    assert again.code == 1 and "The plan is stale" in again.err


def test_nothing_is_said_of_documents_that_have_not_changed(bare: Repo, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    bare.ok("plan", "--out", file)
    assert "documents" not in bare.ok("apply", file, "--yes").out
