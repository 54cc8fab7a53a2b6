"""Which repository a command works on, and what `validate` and `fmt` say of single files and folders."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.bai.conftest import CLUSTER, Repo, Said, new_repo

pytestmark = pytest.mark.slow

SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {name: NAME, project: demo}
spec: {resources: {cpu: 1}, command: [sleep, "9"]}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """With two teams' folders, at the top of a git repository."""
    made = new_repo(tmp_path)
    made.write("teams/a/good.yaml", SESSION.replace("NAME", "good"))
    made.write("teams/b/bad.yaml", SESSION.replace("NAME", "bad").replace("cpu: 1", "gpus: 1"))
    subprocess.run(["git", "init", "-q", made.root], check=True)
    return made


def at(repo: Repo, folder: Path, *words: str) -> Said:
    return Repo(folder, repo.env)(*words)


def test_in_a_folder_of_it_the_repository_is_found(repo: Repo) -> None:
    (repo.root / "teams/b/bad.yaml").unlink()
    said = at(repo, repo.root / "teams/a", "validate")
    assert said.code == 0 and said.out.startswith("Valid: 6 resources")
    assert said.err == f"note: the repository is {repo.root}\n"
    assert "note" not in repo.ok("validate").err
    plan = at(repo, repo.root / "teams", "plan")
    assert plan.code == 0 and "+ Cluster/here" in plan.out and "good" in plan.out


def test_a_folder_with_a_cluster_of_its_own_is_a_repository(repo: Repo) -> None:
    repo.write("staging/clusters/here.yaml", CLUSTER)
    repo.write("staging/sessions/one.yaml", SESSION.replace("NAME", "one"))
    said = at(repo, repo.root / "staging/sessions", "validate")
    assert said.code == 0 and said.err == f"note: the repository is {repo.root / 'staging'}\n"


def test_folders_above_count_in_a_git_repository_only(tmp_path: Path) -> None:
    """Nobody who may write above a folder chooses what bai does in it."""
    made = new_repo(tmp_path)
    made.write("mine/a.yaml", SESSION.replace("NAME", "good"))
    said = at(made, made.root / "mine", "validate")
    assert said.code == 1 and "there is no Project 'demo'" in said.err and "note" not in said.err


def test_validate_of_files_and_folders_says_what_is_wrong_with_these(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo.root)
    good, bad = "teams/a/good.yaml", "teams/b"
    said = repo.ok("validate", good)
    assert said.err == "note: 1 more in other files, see `bai validate`\n"
    said = repo("validate", good, bad)
    assert said.code == 1 and said.err.startswith("teams/b/bad.yaml:4:20: BAI-V020")
    assert repo("validate", bad, "--format", "json").json["problems"][0]["file"] == "teams/b/bad.yaml"
    monkeypatch.chdir("teams")
    assert at(repo, Path("."), "validate", "a").code == 0
    said = at(repo, Path("."), "validate", "b/bad.yaml")
    note, problem, *_ = said.err.splitlines()
    assert said.code == 1 and note == f"note: the repository is {repo.root}"
    assert problem.startswith("teams/b/bad.yaml:4:20")


def test_validate_of_good_files_counts_these(repo: Repo) -> None:
    (repo.root / "teams/b/bad.yaml").unlink()
    assert "Valid: 1 resource (1 Session).\n" in repo.ok("validate", str(repo.root / "teams")).out


@pytest.mark.parametrize("name", ["nowhere.yaml", "README.md", ".hidden/a.yaml"])
def test_validate_of_what_holds_no_documents_is_an_error(repo: Repo, name: str) -> None:
    if name != "nowhere.yaml":
        repo.write(name, SESSION)
    said = repo("validate", str(repo.root / name))
    assert said.code == 1 and said.err.startswith("error: Cannot read") and name in said.err


def test_a_folder_of_other_files_is_no_repository(tmp_path: Path) -> None:
    """It is said after ten of them, and no more are read."""
    other = Repo(tmp_path / "other")
    for number in range(40):
        other.write(f"{number:02}.yaml", "- {hosts: all}\n")
    other.write("11.yaml", "not: [read\n")
    said = other("validate")
    assert said.code == 1
    *problems, error, hint = said.err.splitlines()
    assert len(problems) == 10 and all("BAI-V014" in line for line in problems)
    assert error.endswith("is no repository of bai: none of its first 10 YAML files is a document of bai")
    assert "`bai init DIR`" in hint


def test_files_beside_documents_do_not_hide_them(tmp_path: Path) -> None:
    made = new_repo(tmp_path)
    for number in range(9):
        made.write(f"{number}.yaml", "- {hosts: all}\n")
    made.write("9.yaml", "# nothing but words\n")
    made.write("zz.yaml", "kind: Nod\n")
    said = made("validate")
    assert "zz.yaml:1:1" in said.err and said.err.endswith(f"problem(s) in {made.root}\n")


def test_links_that_nobody_may_follow_are_told(tmp_path: Path) -> None:
    made = new_repo(tmp_path)
    (made.root / "way.yaml").symlink_to("/proc/1/cwd/x")
    assert re.match(r"way\.yaml:1:1: BAI-V00[14]: ", made("validate").err)
