"""`bai apply --base COMMIT --reviewed DIGEST` carries out what the review showed, or nothing."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path

import pytest

from providers.fake import FakeProvider, Fault, World
from tests.bai.conftest import WHO, Repo, Said
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import BASE, NODE, session

GPU = "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"


class Site:
    """Two nodes of two GPUs each, three of them taken by sessions that `main` asks for and that run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.world = World()
        self.repo = Repo(folder, {"COLUMNS": "160", "XDG_STATE_HOME": str(folder.parent), **WHO})
        self.repo.write("base.yaml", BASE)
        self.repo.write("nodes.yaml", "---".join(NODE.format(name=name) for name in ("n1", "n2")))
        self.repo.write("old.yaml", "---".join(session(f"old{n}", GPU) for n in range(3)))
        self.repo.write(".gitignore", ".bai\n")
        git(folder, "init", "--quiet")
        self.base = self.commit()

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            self.repo.write(f"{name}.yaml", text)
        git(self.repo.root, "add", "--all")
        git(self.repo.root, "commit", "--quiet", "--message", "change")
        return git(self.repo.root, "rev-parse", "HEAD")

    def copy(self, folder: Path) -> Site:
        """Another one where the same runs: documents, history, records and kernels."""
        made = copy.copy(self)
        made.world = World()
        made.world.kernels = copy.deepcopy(self.world.kernels)
        made.world.created = list(self.world.created)
        made.repo = Repo(folder, {**self.repo.env, "XDG_STATE_HOME": str(folder.parent)})
        shutil.copytree(self.repo.root, folder)
        return made

    def reviewed(self) -> str:
        """The digest that stands below the review."""
        said = self.repo.ok("review", "--base", self.base).out
        [digest] = re.findall(r"^reviewed ([0-9a-f]{64})$", said, re.M)
        return str(digest)

    def apply(self, digest: str, *words: str) -> Said:
        return self.repo("apply", "--yes", "--base", self.base, "--reviewed", digest, *words)

    def running(self) -> dict[str, str]:
        """Sessions that run, and their nodes."""
        kernels = self.world.kernels
        labels = [kernels[name].spec.labels for name in kernels if self.world.settle(name).ended is None]
        return {each.resource.removeprefix("Session/p/"): each.node for each in labels}

    def with_room(self) -> str:
        """The node that has a GPU left."""
        taken = list(self.running().values())
        return min(("n1", "n2"), key=taken.count)

    def kernel(self, name: str) -> str:
        return next(each for each in self.world.kernels if each.startswith(f"{name}-"))

    def refused(self, digest: str, *words: str) -> str:
        """What is said to an apply that changes nothing: neither what runs nor what is recorded."""
        told = self.repo.ok("events").out
        self.world.calls.clear()
        said = self.apply(digest, *words)
        assert said.code == 1, said.out
        assert {name for name, _ in self.world.calls} <= {"observe"}
        assert self.repo.ok("events").out == told
        return said.err


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Which is copied, and which nobody changes."""
    made = Site(tmp_path_factory.mktemp("reviewed") / "repo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("providers.registry.open_provider", lambda *a, **k: FakeProvider(made.world))
        made.repo.ok("apply", "--yes")
    return made


@pytest.fixture
def site(applied: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = applied.copy(tmp_path / "repo")
    monkeypatch.setattr("providers.registry.open_provider", lambda *a, **k: FakeProvider(made.world))
    return made


def test_what_was_reviewed_is_carried_out(site: Site) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    said = site.apply(digest)
    assert said.code == 0 and "Session/p/new: created" in said.out, said.err
    assert site.running().keys() == {"old0", "old1", "old2", "new"}


def test_the_same_change_by_another_name_is_carried_out_and_carried_out_once(site: Site) -> None:
    """As a forge squashes it; and a pipeline that is run again does no harm."""
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    git(site.repo.root, "commit", "--quiet", "--amend", "--message", "Squashed")
    assert site.apply(digest).code == 0
    site.world.calls.clear()
    again = site.apply(digest)
    assert again.code == 0 and "No changes" in again.out
    assert {name for name, _ in site.world.calls} == {"observe"}


def test_markdown_and_json_give_the_same_digest(site: Site) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    words = ("review", "--base", site.base, "--format")
    assert f"reviewed `{digest}`</sub>" in site.repo.ok(*words, "markdown").out
    assert site.repo.ok(*words, "json").json["digest"] == digest


def test_another_commit_since(site: Site) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    site.commit(more=session("more"))
    said = site.refused(digest)
    assert f"since {site.base}, something else happens" in said and digest[:12] in said
    assert "BAI-E0501" in said and "`bai review` shows what, and gives the new digest" in said
    assert site.apply(site.reviewed()).code == 0


@pytest.mark.parametrize("committed", [True, False])
def test_another_change_than_the_reviewed_one(site: Site, committed: bool) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    site.repo.write("new.yaml", session("new", f"{GPU}, env: {{A: b}}"))
    if committed:
        git(site.repo.root, "commit", "--quiet", "--all", "--amend", "--no-edit")
    assert "something else happens" in site.refused(digest)


def test_another_base_than_the_reviewed_one(site: Site) -> None:
    site.commit(new=session("new", GPU))
    head = site.commit(more=session("more"))
    digest = site.reviewed()
    said = site.repo("apply", "--yes", "--base", f"{head}~1", "--reviewed", digest)
    assert said.code == 1 and "something else happens" in said.err
    assert site.running().keys() == {"old0", "old1", "old2"}


@pytest.mark.parametrize("digest", ["0" * 64, "", "nonsense"])
def test_a_wrong_digest(site: Site, digest: str) -> None:
    site.commit(new=session("new", GPU))
    assert "something else happens" in site.refused(digest)


def test_the_beginning_of_the_digest_is_not_enough(site: Site) -> None:
    site.commit(new=session("new", GPU))
    assert "something else happens" in site.refused(site.reviewed()[:12])


def test_other_records_since(site: Site) -> None:
    """By those at the review, two new sessions are one too many."""
    site.commit(new="---".join(session(name, GPU) for name in ("new1", "new2")))
    digest = site.reviewed()
    site.world.die(site.kernel("old0"))
    site.repo.ok("apply", "--refresh-only")
    assert f"since {site.base}, something else happens" in site.refused(digest)


def test_a_session_that_ended_unseen_makes_room_that_the_review_knew_nothing_of(site: Site) -> None:
    site.commit(new="---".join(session(name, GPU) for name in ("new1", "new2")))
    digest = site.reviewed()
    site.world.die(site.kernel("old0"))
    said = site.refused(digest)
    assert "what is seen is not what is recorded" in said and "--refresh-only" in said
    site.repo.ok("apply", "--refresh-only")
    new = site.reviewed()
    assert new != digest and site.apply(new).code == 0
    assert site.running().keys() == {"old1", "old2", "new1", "new2"}


def test_what_was_never_carried_out_of_the_base_is_carried_out_with_it(site: Site) -> None:
    """A review takes it as done, and says so."""
    site.base = site.commit(late=session("late"))
    site.commit(new=session("new", GPU))
    said = site.repo.ok("review", "--base", site.base).out
    assert "The base is not what is carried out (1 action apart)" in said
    assert site.apply(site.reviewed()).code == 0
    assert {"late", "new"} <= site.running().keys()


def test_a_node_that_is_not_reached_where_the_review_puts_something(site: Site) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    free = site.with_room()
    site.world.down[free] = "no route to host"
    said = site.refused(digest)
    assert f"not reached: {free}" in said and "something else happens" in said
    site.world.down.clear()
    assert site.apply(digest).code == 0
    assert site.running()["new"] == free


def test_a_node_that_is_not_reached_and_has_nothing_to_do_with_it(site: Site) -> None:
    """On a thousand nodes there is always one."""
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    [full] = {"n1", "n2"} - {site.with_room()}
    site.world.down[full] = "no route to host"
    assert site.apply(digest).code == 0
    assert "new" in site.running()


@pytest.mark.parametrize("blind", ["a kernel", "everything"])
def test_what_runs_cannot_be_observed(site: Site, blind: str) -> None:
    site.commit(new=session("new", GPU))
    digest = site.reviewed()
    if blind == "a kernel":
        site.world.hidden.add(site.kernel("old0"))
    else:
        site.world.inject(Fault("observe", why="the socket is gone", times=9))
    said = site.refused(digest)
    assert "not everything could be observed: " in said and "BAI-E0501" in said
    assert ("old0" if blind == "a kernel" else "the socket is gone") in said


@pytest.mark.parametrize("words", [("--base", "HEAD~1"), ("--reviewed", "0" * 64)])
@pytest.mark.parametrize("more", [(), ("--refresh-only",)])
def test_one_of_the_two_alone(site: Site, words: tuple[str, ...], more: tuple[str, ...]) -> None:
    site.commit(new=session("new", GPU))
    said = site.repo("apply", "--yes", *words, *more)
    assert said.code == 1 and "--base and --reviewed go together" in said.err
    assert not site.world.calls, "nobody was asked"


def test_a_base_that_is_no_commit(site: Site) -> None:
    site.commit(new=session("new", GPU))
    said = site.repo("apply", "--yes", "--base", "nonsense", "--reviewed", site.reviewed())
    assert said.code == 1 and "nonsense" in said.err
    assert site.running().keys() == {"old0", "old1", "old2"}


@pytest.mark.parametrize(
    "words",
    [("--target", "Session/p/new"), ("--replace", "old0"), ("--defragment",), ("--refresh-only",)],
)
def test_what_would_be_more_or_less_than_was_reviewed(site: Site, words: tuple[str, ...]) -> None:
    site.commit(new=session("new", GPU))
    said = site.refused(site.reviewed(), *words)
    left = "--reviewed" if words == ("--refresh-only",) else words[0]
    assert f"leave {left} out" in said


def test_a_saved_plan_is_another_than_the_review(site: Site, tmp_path: Path) -> None:
    """The documents are those that were reviewed; the file would do something else."""
    saved = tmp_path / "plan.json"
    site.commit(evil=session("evil", GPU))
    site.repo.ok("plan", "--out", str(saved))
    git(site.repo.root, "reset", "--quiet", "--hard", "HEAD~1")
    site.commit(new=session("new", GPU))
    said = site.refused(site.reviewed(), str(saved))
    assert "a saved plan has its choices already" in said and "leave --reviewed out" in said
