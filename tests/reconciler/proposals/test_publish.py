"""Proposals become commits of a real bare repository, whatever others do to it meanwhile."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from reconciler.gitops.remote import Remote
from reconciler.gitops.submit import FileChange
from reconciler.proposals.publish import Publisher
from reconciler.proposals.values import Person, Proposal
from schemas.problems.errors.git_remote import NotPushed, StaleProposal
from schemas.problems.errors.repository import CannotRead
from tests.reconciler.gitops.repositories import Pair, git

BAI = Person("bai", "bai@lab.example")
ADA = Person.of("ada", "lab")


def accept(commit: str) -> None:
    """Every commit is good."""


class Desk:
    """A remote with two files, its copy, and who publishes."""

    def __init__(self, folder: Path, url: str = "", subpath: str = "") -> None:
        below = f"{subpath}/" if subpath else ""
        self.pair = Pair(folder, {f"{below}a.yaml": "a: 1\n", f"{below}b.yaml": "b: 1\n"})
        self.remote = Remote(url or str(self.pair.bare), folder / "copy.git")
        self.base = self.remote.fetch("main")
        self.publisher = Publisher(self.remote, "main", subpath, BAI)

    def proposal(self, after: bytes | None = b"a: 2\n", **more: object) -> Proposal:
        change = FileChange("a.yaml", b"a: 1\n", after)
        values = {"title": "Set a", "reason": "it was 1", "author": ADA, **more}
        return Proposal(self.base, (change,), **values)  # type: ignore[arg-type]

    def show(self, what: str) -> str:
        return git(self.pair.bare, "show", "--no-patch", *what.split())

    def branches(self) -> list[str]:
        return git(self.pair.bare, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_branch_has_one_commit_on_the_base(desk: Desk) -> None:
    done = desk.publisher.to_branch(desk.proposal(), accept)
    assert done.branch == "bai/ada/set-a"
    assert desk.show(f"--format=%P|%an|%ae|%cn|%ce {done.commit}") == (
        f"{desk.base}|ada|ada@lab|bai|bai@lab.example"
    )
    assert desk.show(f"--format=%B {done.commit}") == "Set a\n\nReason: it was 1"
    assert git(desk.pair.bare, "show", f"{done.branch}:a.yaml") == "a: 2"
    assert git(desk.pair.bare, "show", f"{done.branch}:b.yaml") == "b: 1"
    assert git(desk.pair.bare, "rev-parse", "main") == desk.base


def test_a_branch_that_exists_is_left_as_it_is(desk: Desk) -> None:
    first = desk.publisher.to_branch(desk.proposal(), accept)
    second = desk.publisher.to_branch(desk.proposal(b"a: 3\n"), accept)
    assert (first.branch, second.branch) == ("bai/ada/set-a", "bai/ada/set-a-2")
    assert git(desk.pair.bare, "rev-parse", first.branch) == first.commit


def test_a_branch_in_the_way_of_all_others_is_named(desk: Desk) -> None:
    desk.pair.push(branch="bai")
    with pytest.raises(NotPushed, match=r"refs/heads/bai|directory file conflict"):
        desk.publisher.to_branch(desk.proposal(), accept)
    assert desk.branches() == ["bai", "main"]


def test_the_followed_branch_moves_on_by_one(desk: Desk) -> None:
    done = desk.publisher.to_followed(desk.proposal(None), accept)
    assert done.branch == "main" and desk.branches() == ["main"]
    assert git(desk.pair.bare, "rev-parse", "main") == done.commit
    assert git(desk.pair.bare, "ls-tree", "--name-only", "main") == "b.yaml"


def test_it_rests_on_what_others_have_pushed_elsewhere(desk: Desk) -> None:
    theirs = desk.pair.commit({"b.yaml": "b: 2\n"})
    desk.pair.push()
    done = desk.publisher.to_followed(desk.proposal(), accept)
    assert desk.show(f"--format=%P {done.commit}") == theirs
    assert git(desk.pair.bare, "show", "main:b.yaml") == "b: 2"


@pytest.mark.parametrize("text", ["a: 9\n", None])
def test_a_file_that_others_have_changed_is_not_written_over(desk: Desk, text: str | None) -> None:
    theirs = desk.pair.commit({"a.yaml": text})
    desk.pair.push()
    for publish in (desk.publisher.to_followed, desk.publisher.to_branch):
        with pytest.raises(StaleProposal, match=r"a\.yaml has changed"):
            publish(desk.proposal(), accept)
    assert git(desk.pair.bare, "rev-parse", "main") == theirs and desk.branches() == ["main"]


def test_a_file_that_others_have_made_is_not_written_over(desk: Desk) -> None:
    new = Proposal(desk.base, (FileChange("new.yaml", None, b"mine: 1\n"),), "Add new", "", ADA)
    desk.pair.commit({"new.yaml": "theirs: 1\n"})
    desk.pair.push()
    with pytest.raises(StaleProposal):
        desk.publisher.to_followed(new, accept)


def test_races_with_other_pushers_are_run_again(desk: Desk) -> None:
    seen: list[str] = []

    def check(commit: str) -> None:
        seen.append(commit)
        if len(seen) <= 3:  # Between our look and our push.
            desk.pair.commit({"b.yaml": f"b: {len(seen) + 10}\n"})
            desk.pair.push()

    done = desk.publisher.to_followed(desk.proposal(), check)
    assert len(seen) == 4 and seen[-1] == done.commit
    assert git(desk.pair.bare, "show", "main:b.yaml") == "b: 13"
    assert git(desk.pair.bare, "show", "main:a.yaml") == "a: 2"


def test_many_at_once_are_all_there(desk: Desk) -> None:
    failed: list[BaseException] = []

    def publish(number: int) -> None:
        change = FileChange(f"n{number}.yaml", None, b"n: 1\n")
        try:
            desk.publisher.to_branch(Proposal(desk.base, (change,), "Add one", "", ADA), accept)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(desk.branches()) == 5


def test_documents_that_cannot_be_used_are_not_pushed(desk: Desk) -> None:
    def refuse(commit: str) -> None:
        raise CannotRead(what=commit, why="it is wrong")

    for publish in (desk.publisher.to_followed, desk.publisher.to_branch):
        with pytest.raises(CannotRead):
            publish(desk.proposal(), refuse)
    assert desk.branches() == ["main"] and git(desk.pair.bare, "rev-parse", "main") == desk.base


def test_a_branch_that_the_remote_protects_says_so(desk: Desk) -> None:
    hook = desk.pair.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\necho 'GL-HOOK-ERR: You are not allowed to push to a protected branch' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    with pytest.raises(NotPushed, match="not allowed to push to a protected branch") as refused:
        desk.publisher.to_followed(desk.proposal(), accept)
    assert "pre-receive hook declined" in refused.value.message and "--proposals branch" in refused.value.hint
    assert git(desk.pair.bare, "rev-parse", "main") == desk.base


def test_what_the_remote_says_has_no_password(desk: Desk, tmp_path: Path) -> None:
    remote = Remote("https://bai:s3cr3t@127.0.0.1:1/x.git", desk.remote.folder)
    done = remote.push(desk.base, "x", new=True)
    assert not done.pushed and "s3cr3t" not in done.why and done.why


def test_a_tag_is_not_pushed_to(desk: Desk) -> None:
    git(desk.pair.work, "tag", "v1")
    git(desk.pair.work, "push", "--quiet", "origin", "v1")
    with pytest.raises(NotPushed, match="v1 is no branch"):
        Publisher(desk.remote, "v1", "", BAI).to_followed(desk.proposal(), accept)
    assert desk.publisher.to_branch(desk.proposal(), accept).branch == "bai/ada/set-a"


def test_files_lie_below_the_folder_that_is_followed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, subpath="clusters/lab")
    desk.publisher.to_followed(desk.proposal(), accept)
    assert git(desk.pair.bare, "show", "main:clusters/lab/a.yaml") == "a: 2"


@pytest.mark.parametrize(
    "name",
    ["ada\nAuthor: eve <eve@x>", "ada <eve@x>\r\ncommitter eve", "\x00\u202eada", "", "<>", "ada\x1b[2J"],
)
def test_no_name_writes_headers_of_a_commit(desk: Desk, name: str) -> None:
    proposal = desk.proposal(author=Person.of(name, "lab\nx: y"), title=f"Set a\n\nSigned-off-by: {name}")
    done = desk.publisher.to_branch(proposal, accept)
    head = git(desk.pair.bare, "cat-file", "commit", done.commit).partition("\n\n")[0].splitlines()
    assert [line.partition(" ")[0] for line in head] == ["tree", "parent", "author", "committer"]
    assert head[2].count("<") == 1 and head[3].startswith("committer bai <bai@lab.example>")


def test_no_reason_writes_trailers(desk: Desk) -> None:
    reason = "because\n\nSigned-off-by: Grace <grace@x>\nCo-authored-by: Eve <eve@x>"
    done = desk.publisher.to_branch(desk.proposal(reason=reason), accept)
    keys = desk.show(f"--format=%(trailers:keyonly) {done.commit}").split()
    assert not {"Signed-off-by", "Co-authored-by"} & set(keys)


def test_a_link_is_not_written_over(desk: Desk) -> None:
    (desk.pair.work / "a.yaml").unlink()
    (desk.pair.work / "a.yaml").symlink_to("b.yaml")
    base = desk.pair.commit({})
    desk.pair.push()
    linked = Proposal(base, (FileChange("a.yaml", b"a: 1\n", b"a: 2\n"),), "Set a", "", ADA)
    with pytest.raises(NotPushed, match="no plain file"):
        desk.publisher.to_followed(linked, accept)


def test_nothing_is_left_in_the_place_of_the_copy(desk: Desk) -> None:
    before = {each.name for each in desk.remote.folder.parent.iterdir()}
    desk.publisher.to_branch(desk.proposal(), accept)
    assert {each.name for each in desk.remote.folder.parent.iterdir()} == before
    assert not list(desk.remote.folder.glob("index*"))
    said = subprocess.run(
        ["git", "--git-dir", str(desk.remote.folder), "fsck"], capture_output=True, check=False
    )
    assert said.returncode == 0
