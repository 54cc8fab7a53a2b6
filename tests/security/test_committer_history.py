"""Who may push, signs with a key that counts, and owns a few folders: he shapes the history itself so that
what is others' changes without a commit of his that changes it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.problems.errors.git_remote import RemoteUnreachable
from tests.bai.conftest import CLUSTER
from tests.lab.signers import Signers, mail, signers
from tests.reconciler.gitops.repositories import git
from tests.security.test_committer_commits import OWNERS, SSH, Lab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not there"),
]


@pytest.fixture(scope="module")
def keys() -> Iterator[Signers]:
    with signers() as made:
        yield made


@pytest.fixture
def owned(tmp_path: Path, keys: Signers) -> Lab:
    """First a commit without owners, then one with: everything is Ada's but for Bob's folder."""
    lab = Lab(tmp_path, keys)
    (lab.own / "allowed").write_text(keys.line("ada") + keys.line("bob"))
    lab.owner_says(SSH, {})
    lab.commit({"cluster.yaml": CLUSTER, "sessions/ada.yaml": "", "sessions/bob/b.yaml": ""}, sign="ssh")
    assert lab.verdict() == ""
    lab.commit({"CODEOWNERS": OWNERS}, sign="ssh")
    assert lab.verdict() == ""
    return lab


def tree(lab: Lab, *lines: str) -> str:
    return made(lab, "mktree", data="".join(f"{line}\n" for line in lines))


def made(lab: Lab, *words: str, data: str = "") -> str:
    done = subprocess.run(
        ["git", "-C", str(lab.work), *words], input=data, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def signed(lab: Lab, tree: str, *parents: str, who: str = "bob") -> str:
    """A commit of exactly this tree, and main is it."""
    words = [word for parent in parents for word in ("-p", parent)]
    commit = lab.git("commit-tree", "-S", tree, *words, "-m", "x", who=who, sign="ssh")
    lab.git("reset", "-q", "--hard", commit)
    return commit


def blob(lab: Lab, text: str) -> str:
    return made(lab, "hash-object", "-w", "--stdin", data=text)


def test_a_history_that_forgets_the_owners(owned: Lab) -> None:
    """Bob goes back before there were owners, changes what is his own, and merges the rest away. Whoever
    looks at the branch for the names of its clusters must not take his word for the last good one: the forge
    shows each what it likes."""
    follow = owned.follow()
    good, _ = follow.select_commit()
    follow.verify_trust(good)
    follow.accept(good)
    owned.git("reset", "-q", "--hard", f"{good}~1")
    side = owned.commit({"sessions/bob/b.yaml": "# mine"}, who="bob", sign="ssh")
    assert "CODEOWNERS: it is owned by ada" in owned.distrust(side)
    (owned.work / "sessions/ada.yaml").write_text("# Bob's")
    owned.git("add", "--all")
    evil = signed(owned, owned.git("write-tree"), good, side)
    assert "sessions/ada.yaml: it is owned by ada" in owned.distrust(evil)


@pytest.mark.parametrize("fork", ["", "HEAD~1"])
def test_a_history_without_what_is_others(owned: Lab, fork: str) -> None:
    """The newest commit is not on what was good: what it lacks counts as taken away by its signer."""
    files = tree(owned, f"100644 blob {blob(owned, 'x')}\tb.yaml")
    bob = tree(owned, f"040000 tree {files}\tbob")
    base = owned.git("rev-parse", fork) if fork else ""
    signed(owned, tree(owned, f"040000 tree {bob}\tsessions"), *([base] if base else []))
    said = owned.distrust(owned.git("rev-parse", "HEAD"))
    assert "CODEOWNERS: it is owned by ada" in said and "cluster.yaml" in said, said


@pytest.mark.parametrize("mode", ["120000", "160000", "040000"])
def test_owners_in_a_file_that_is_none(owned: Lab, mode: str) -> None:
    """A link, a submodule or a folder of this name does not mean that nobody owns anything."""
    kept = [line for line in made(owned, "ls-tree", "HEAD").splitlines() if not line.endswith("CODEOWNERS")]
    thing = {"120000": blob(owned, ".github/CODEOWNERS"), "160000": owned.git("rev-parse", "HEAD")}.get(
        mode, tree(owned, f"100644 blob {blob(owned, 'x')}\tx")
    )
    kind = {"120000": "blob", "160000": "commit", "040000": "tree"}[mode]
    signed(owned, tree(owned, *kept, f"{mode} {kind} {thing}\tCODEOWNERS"), "HEAD", who="ada")
    assert "CODEOWNERS is no plain file" in owned.verdict()


def test_owners_that_were_wrong_before_they_counted(tmp_path: Path, keys: Signers) -> None:
    """Nobody can repair them while they count: that is said, with the way out, which works."""
    lab = Lab(tmp_path, keys)
    lab.owner_says(SSH)
    lab.commit({"CODEOWNERS": "[Section]\n* ada@cluster.example\n"}, sign="ssh")
    assert lab.verdict() == ""
    lab.owner_says(SSH, {})
    lab.commit({"CODEOWNERS": f"* {mail('ada')}\n"}, sign="ssh")
    assert "take `owners` out of the owner's file for one commit" in lab.verdict()
    lab.owner_says(SSH)
    assert lab.verdict() == ""
    lab.owner_says(SSH, {})
    lab.commit({"x.yaml": ""}, who="bob", sign="ssh")
    assert "x.yaml: it is owned by ada" in lab.verdict()


def test_what_stands_in_the_place_of_others_folders(owned: Lab) -> None:
    """A file, a link or a submodule in place of a folder takes away what is in it; also as a merge's own."""
    owned.commit({"x/a.yaml": "1"}, sign="ssh")
    assert owned.verdict() == ""
    base = owned.git("rev-parse", "HEAD")
    rest = [line for line in made(owned, "ls-tree", "HEAD").splitlines() if not line.endswith("\tx")]
    for mode, kind, thing in (("160000", "commit", base), ("120000", "blob", blob(owned, "sessions/bob"))):
        changed = tree(owned, *rest, f"{mode} {kind} {thing}\tx")
        for parents in ((base,), (base, base), (base, f"{base}~1")):
            signed(owned, changed, *parents)
            assert "x/a.yaml: it is owned by ada" in owned.verdict(), (mode, parents)
    owned.git("reset", "-q", "--hard", base)


LIKE_BOBS = [
    "sessions/Bob/b.yaml", "sessions/bob /b.yaml", "sessions/b\u03bfb/b.yaml", "sessions/bob.d/b.yaml",
    "sessions/bob\\b.yaml", "Sessions/bob/b.yaml", '"sessions/bob/b.yaml"',
]  # fmt: skip


def test_names_that_look_alike(owned: Lab) -> None:
    """Letters of another alphabet, capitals, a folder's name with a dot or a space: each is its own."""
    for name in LIKE_BOBS:
        base = owned.git("rev-parse", "HEAD")
        owned.commit({name: "1"}, who="bob", sign="ssh")
        assert "it is owned by ada" in owned.verdict(), name
        owned.git("reset", "-q", "--hard", base)


def test_only_the_rights_of_a_file_change(owned: Lab) -> None:
    os.chmod(owned.work / "sessions/ada.yaml", 0o755)
    owned.commit(who="bob", sign="ssh")
    assert "sessions/ada.yaml: it is owned by ada" in owned.verdict()


def test_a_forge_that_leaves_commits_out(owned: Lab, tmp_path: Path) -> None:
    """A shallow remote: what lies below could not be judged, and so it is not fetched."""
    good = owned.git("rev-parse", "HEAD")
    owned.commit({"sessions/ada.yaml": "evil"}, who="mallory")
    owned.commit({"sessions/bob/b.yaml": "2"}, who="bob", sign="ssh")
    owned.pair.push("--force")
    shallow = tmp_path / "shallow.git"
    git(tmp_path, "clone", "-q", "--bare", "--depth", "1", f"file://{owned.pair.bare}", str(shallow))
    shutil.rmtree(owned.pair.bare)
    shallow.rename(owned.pair.bare)
    follow = owned.follow()
    follow.accept(good)
    for _ in range(2):
        commit, error = follow.select_commit()
        assert commit == good and "shallow" in str(error)
    shutil.rmtree(follow.remote.folder)
    with pytest.raises(RemoteUnreachable, match="shallow"):
        follow.remote.fetch(follow.ref)


def test_settings_of_git_in_what_is_pushed(owned: Lab) -> None:
    """Attributes, mailmap and submodules name nothing that is run, and hide no change."""
    files = {
        ".gitattributes": "* -diff -text export-ignore filter=x diff=x merge=ours\n",
        ".mailmap": f"Ada <{mail('ada')}> <{mail('bob')}>\n",
        ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = https://forge.example/x\n',
    }
    owned.commit(dict(files), sign="ssh")
    owned.pair.push("--force")
    follow = owned.follow()
    with_files, error = follow.select_commit()
    assert error is None
    follow.verify_trust(with_files)
    owned.commit({"sessions/ada.yaml": "2"}, who="bob", sign="ssh")
    assert (
        f"it is owned by ada@cluster.example (CODEOWNERS:2), and {mail('bob')} changed it" in owned.verdict()
    )
