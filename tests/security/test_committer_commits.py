"""Who may push to the followed repository, and wants more than his commits may do: to be taken for somebody
else, or to change what is others'."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.loop import Loop
from reconciler.gitops.directives import Directive, DirectiveKind, issue_directive
from reconciler.gitops.document_source import first_commit
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.trust.gate import TrustGate
from reconciler.trust.trust_file import load_trust_settings
from schemas.files.git_source import CommitSource
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.git_remote import NotTrusted
from tests.bai.conftest import CLUSTER, Repo
from tests.lab.signers import LONG_AGO, Signers, as_person, mail, signers
from tests.reconciler.gitops.repositories import Pair, git
from tests.reconciler.gitops.test_document_source import Site, once, running
from tests.reconciler.gitops.test_revision_tracker import Memory
from tests.reconciler.lab import session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg (Debian package gnupg) is not there"),
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not there"),
]


@pytest.fixture(scope="module")
def keys() -> Iterator[Signers]:
    """Of Ada and Bob, who are allowed to, by SSH and by OpenPGP; and of others."""
    with signers() as made:
        made.gpg_key("ada")
        made.gpg_key("mallory")
        made.gpg_key("old", "2d", at=LONG_AGO)
        made.revoke(made.gpg_key("gone"))
        yield made


Files = dict[str, str | None]
SSH = {"allowedSigners": "allowed", "revokedKeys": "revoked"}
GPG = {"openpgpKeys": ["keys.asc"]}


class Lab:
    """A forge, who pushes to it, and bai that follows it under the owner's settings."""

    def __init__(self, folder: Path, keys: Signers) -> None:
        self.keys = keys
        self.pair = Pair(folder)
        self.work = self.pair.work
        self.own = folder / "own"
        self.own.mkdir()
        self.memory = Memory()
        self.folder = folder
        (self.own / "allowed").write_text(
            keys.line("ada") + keys.line("bob") + keys.line("eve", 'valid-before="20200201"')
            + keys.line("later", 'valid-after="29990101"') + keys.line("files", 'namespaces="file"')
            + keys.line("rita")
        )  # fmt: skip
        (self.own / "revoked").write_text(keys.line("rita").partition(" ")[2])
        (self.own / "keys.asc").write_text(keys.armored("ada", "old", "gone"))

    def owner_says(self, signatures: dict[str, Any] | None, owners: dict[str, Any] | None = None) -> None:
        said = {"signatures": signatures, "owners": owners}
        (self.own / "trust.yaml").write_text(
            yaml.safe_dump({name: value for name, value in said.items() if value is not None})
        )

    def git(self, *arguments: str, who: str = "ada", author: str = "", sign: str = "") -> str:
        words = ["git", "-C", str(self.work), *self.keys.git_options(sign, who), *arguments]
        done = subprocess.run(words, env=as_person(who, author), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(
        self,
        files: Files | None = None,
        *,
        who: str = "ada",
        sign: str = "",
        author: str = "",
    ) -> str:
        for name, text in (files or {}).items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", "change", who=who, sign=sign, author=author)
        return self.git("rev-parse", "HEAD")

    def raw(self, change: Any, *, who: str = "ada", sign: str = "ssh") -> None:
        """A signed commit, changed afterwards byte by byte, takes the place of the newest."""
        data = change(subprocess.run(
            ["git", "-C", str(self.work), "cat-file", "commit", self.commit(who=who, sign=sign)],
            capture_output=True, check=True,
        ).stdout)  # fmt: skip
        made = subprocess.run(
            ["git", "-C", str(self.work), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
            input=data, capture_output=True, check=True,
        ).stdout.decode().strip()  # fmt: skip
        self.git("update-ref", "refs/heads/main", made)

    def follow(self, ref: str = "main") -> RevisionTracker:
        remote = Remote(str(self.pair.bare), self.folder / "state" / "copy")
        found = load_trust_settings(self.own / "trust.yaml", [remote.folder])
        assert found is not None
        return RevisionTracker(TrackedRef(remote, ref), self.memory, "here", gate=TrustGate(found))

    def verdict(self, ref: str = "main", *, push: bool = True) -> str:
        """Why the newest is not followed; empty when it is."""
        if push:
            self.pair.push("--force")
        follow = self.follow(ref)
        commit, error = follow.select_commit()
        assert error is None
        try:
            follow.verify_trust(commit)
        except NotTrusted as refused:
            assert self.memory.get(f"trusted-commit/{self.pair.bare}/{ref}") != commit
            return str(refused)
        return ""

    def distrust(self, commit: str) -> str:
        """Why a commit that the forge shows is not followed, whether it rests on what was good or not."""
        self.pair.push("--force")
        follow = self.follow()
        follow.remote.fetch("main")
        try:
            follow.verify_trust(commit)
        except NotTrusted as refused:
            return str(refused)
        return ""


@pytest.fixture
def lab(tmp_path: Path, keys: Signers) -> Lab:
    made = Lab(tmp_path, keys)
    made.owner_says(SSH)
    return made


# Who signed


@pytest.mark.parametrize("kind", ["ssh", "gpg"])
def test_signed_by_who_is_allowed_to(lab: Lab, kind: str) -> None:
    lab.owner_says({**SSH, **GPG})
    lab.commit(sign=kind)
    assert lab.verdict() == ""


@pytest.mark.parametrize(
    ("who", "sign", "why"),
    [
        ("ada", "", "it is not signed"),
        ("mallory", "ssh", "its SSH key is not among the allowed signers"),
        ("eve", "ssh", "key has expired"),
        ("later", "ssh", "key is not yet valid"),
        ("files", "ssh", "not permitted for use in signature namespace"),
        ("rita", "ssh", "was revoked"),
        ("mallory", "gpg", "its OpenPGP key is not among those that are allowed"),
        ("old", "gpg-long-ago", "its OpenPGP key has expired"),
    ],
)
def test_signed_by_nobody_who_counts(lab: Lab, who: str, sign: str, why: str) -> None:
    lab.owner_says({**SSH, **GPG})
    lab.commit(who=who, sign=sign)
    assert why in lab.verdict()


def test_a_revoked_key_of_openpgp(lab: Lab, keys: Signers, tmp_path: Path) -> None:
    """It signed before it was revoked: with a copy of the folder from then."""
    before = Signers(keys.folder / "before")
    before.folder.mkdir()
    before.gnupg.mkdir(mode=0o700)
    try:
        fingerprint = before.gpg_key("gone")
        lab.owner_says(GPG)
        (lab.own / "keys.asc").write_text(before.armored("gone"))
        lab.keys = before
        lab.commit(who="gone", sign="gpg")
        assert lab.verdict() == ""
        lab.commit(who="gone", sign="gpg")
        before.revoke(fingerprint)
        (lab.own / "keys.asc").write_text(before.armored("gone"))
        assert "its OpenPGP key was revoked" in lab.verdict()
    finally:
        subprocess.run(["gpgconf", "--homedir", before.gnupg, "--kill", "all"], check=False)


@pytest.mark.parametrize(("allowed", "sign"), [(GPG, "ssh"), (SSH, "gpg")])
def test_the_kind_of_signature_is_not_the_commits_to_choose(lab: Lab, allowed: Any, sign: str) -> None:
    lab.owner_says(allowed)
    lab.commit(sign=sign)
    assert "only" in lab.verdict()


@pytest.mark.parametrize("sign", ["ssh", "gpg"])
def test_a_key_does_not_speak_for_others(lab: Lab, sign: str) -> None:
    lab.owner_says({**SSH, **GPG})
    lab.git("commit", "-q", "--allow-empty", "-m", "I am Bob", who="bob")
    options = lab.keys.git_options(sign, "ada")
    subprocess.run(
        ["git", "-C", str(lab.work), *options, "commit", "-q", "--amend", "--allow-empty", "-m", "I am Bob"],
        env=as_person("bob"), check=True,
    )  # fmt: skip
    said = lab.verdict()
    assert f"of {mail('ada')}, which does not count for {mail('bob')}" in said


def test_an_expired_key_does_not_come_back_with_an_old_date(lab: Lab) -> None:
    """Git would verify at the time that the commit itself tells."""
    env = {
        **as_person("eve"),
        "GIT_COMMITTER_DATE": "2019-06-01T00:00:00",
        "GIT_AUTHOR_DATE": "2019-06-01T00:00:00",
    }
    subprocess.run(
        ["git", "-C", str(lab.work), *lab.keys.git_options("ssh", "eve"), "commit", "-q", "--allow-empty",
         "-m", "x"], env=env, check=True,
    )  # fmt: skip
    settled = ["-c", f"gpg.ssh.allowedSignersFile={lab.own / 'allowed'}"]
    assert git(lab.work, *settled, "log", "-1", "--format=%G?") == "G"
    assert "key has expired" in lab.verdict()


def _message(data: bytes) -> bytes:
    return data.replace(b"\n\nchange", b"\n\nanother")


def _two_signatures(data: bytes) -> bytes:
    head, _, rest = data.partition(b"gpgsig ")
    signature, _, message = rest.partition(b"\n\n")
    return head + b"gpgsig " + signature + b"\ngpgsig " + signature + b"\n\n" + message


def _two_in_one(data: bytes) -> bytes:
    head, _, rest = data.partition(b"gpgsig ")
    signature, _, message = rest.partition(b"\n\n")
    return head + b"gpgsig " + signature + b"\n " + signature + b"\n\n" + message


def _trailing(data: bytes) -> bytes:
    end = b"-----END SSH SIGNATURE-----\n"
    return data.replace(end, end + b" and more\n")


def _other_algorithm(data: bytes) -> bytes:
    return data.replace(b"gpgsig ", b"gpgsig-sha256 ")


def _second_committer(data: bytes) -> bytes:
    return data.replace(b"\ngpgsig ", b"\ncommitter B <bob@cluster.example> 1 +0000\ngpgsig ")


def _no_kind(data: bytes) -> bytes:
    return data.replace(b"BEGIN SSH SIGNATURE", b"BEGIN SIGNED MESSAGE")


@pytest.mark.parametrize(
    "change",
    [_message, _two_signatures, _two_in_one, _trailing, _other_algorithm, _second_committer, _no_kind],
)
def test_a_commit_that_was_changed(lab: Lab, change: Any) -> None:
    lab.raw(change)
    # The forge's own check of objects is not what is tried here.
    shutil.copytree(lab.work / ".git" / "objects", lab.pair.bare / "objects", dirs_exist_ok=True)
    head = git(lab.work, "rev-parse", "HEAD")
    git(lab.pair.bare, "update-ref", "refs/heads/main", head)
    gate = lab.follow().gate
    assert gate is not None
    with pytest.raises(NotTrusted):
        gate.check(lab.pair.bare, head)


def test_programs_and_keys_named_by_the_repository_or_the_user(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\necho '[GNUPG:] GOODSIG 1 x'\nexit 0\n")
    trap.chmod(0o755)
    home = tmp_path / "home"
    (home / ".gnupg").mkdir(parents=True, mode=0o700)
    config = "".join(
        f"[{section}]\n\tprogram = {trap}\n"
        for section in ("gpg", 'gpg "ssh"', 'gpg "openpgp"', 'gpg "x509"')
    )
    config += f'[gpg "ssh"]\n\tallowedSignersFile = {tmp_path}/all\n[log]\n\tshowSignature = true\n'
    config += f"[diff]\n\texternal = {trap}\n[core]\n\tfsmonitor = {trap}\n\thooksPath = {tmp_path}\n"
    (tmp_path / "all").write_text(lab.keys.line("mallory"))
    (home / ".gitconfig").write_text(config)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GNUPGHOME", str(lab.keys.gnupg))
    lab.owner_says({**SSH, **GPG})
    lab.commit({".gitconfig": config, ".gitattributes": "* diff=trap\n", "a.yaml": "{}"}, sign="ssh")
    assert lab.verdict() == ""
    with (lab.follow().remote.folder / "config").open("a") as file:
        file.write(config)
    lab.commit({"a.yaml": "[]"}, who="mallory", sign="gpg")
    assert "not among those that are allowed" in lab.verdict()
    lab.git("reset", "-q", "--hard", "HEAD~1")
    lab.commit({"a.yaml": "[]"}, who="mallory", sign="ssh")
    assert "not among the allowed signers" in lab.verdict()
    assert not (tmp_path / "sprung").exists()


# Which commits


def test_an_unsigned_one_in_between(lab: Lab) -> None:
    oldest = lab.commit(sign="ssh")
    assert lab.verdict() == ""
    bad = lab.commit({"a.yaml": "x"}, who="mallory")
    lab.commit({"b.yaml": "x"}, sign="ssh")
    assert f"{bad[:12]}: it is not signed" in lab.verdict()
    assert lab.memory[f"trusted-commit/{lab.pair.bare}/main"] == oldest
    lab.owner_says({**SSH, "commits": "tip"})
    assert lab.verdict() == ""


def test_a_merge_whose_second_side_is_unsigned(lab: Lab) -> None:
    lab.commit({"a.yaml": "x"}, sign="ssh")
    assert lab.verdict() == ""
    lab.git("switch", "-q", "-c", "side")
    bad = lab.commit({"b.yaml": "x"}, who="mallory")
    lab.git("switch", "-q", "main")
    lab.git("merge", "-q", "--no-ff", "-m", "merge", "side", sign="ssh")
    assert bad[:12] in lab.verdict()


def test_a_signed_tag_signs_no_commit(lab: Lab) -> None:
    lab.commit()
    lab.git("tag", "-s", "-m", "v1", "v1", sign="ssh")
    lab.git("push", "-q", "origin", "main", "v1")
    assert "it is not signed" in lab.verdict("v1", push=False)


def test_replacements_and_grafts_change_nothing(lab: Lab) -> None:
    """What is verified is what is read, also where somebody has put another commit in its place."""
    good = lab.commit({"a.yaml": "good"}, sign="ssh")
    assert lab.verdict() == ""
    bad = lab.commit({"a.yaml": "bad"}, who="mallory")
    lab.git("push", "-q", "origin", "main", f"{bad}:refs/replace/{good}")
    assert "it is not signed" in lab.verdict(push=False)
    follow = lab.follow()
    assert not git(follow.remote.folder, "for-each-ref", "refs/replace")
    git(follow.remote.folder, "fetch", "-q", str(lab.pair.bare), "refs/replace/*:refs/replace/*")
    assert git(follow.remote.folder, "show", f"{good}:a.yaml") == "bad"
    assert follow.remote.descends_from(bad, good) and not follow.remote.descends_from(good, bad)
    source = follow.source(good)
    assert source.git is not None
    read = {file.path: file.data for file in CommitSource(source.git, good).files()}
    assert read == {"a.yaml": b"good"}
    git(follow.remote.folder, "update-ref", "-d", f"refs/replace/{good}")
    git(follow.remote.folder, "update-ref", f"refs/replace/{bad}", good)
    with pytest.raises(NotTrusted, match="it is not signed"):
        lab.follow().verify_trust(bad)


def test_a_thousand_commits_at_once_are_verified_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit({"CODEOWNERS": f"* {mail('ada')}\n"}, sign="ssh")
    lab.owner_says(SSH, {})
    assert lab.verdict() == ""
    signed = lab.commit({"a.yaml": "0"}, sign="ssh")
    author = f"A <{mail('ada')}> 1700000000 +0000"
    stream = "".join(
        f"commit refs/heads/main\nauthor {author}\ncommitter {author}\ndata 1\nx\n"
        f"{'' if number else f'from {signed}' + chr(10)}M 100644 inline f/{number}.yaml\ndata 1\nx\n"
        for number in range(1000)
    )
    done = subprocess.run(
        ["git", "-C", str(lab.work), "fast-import", "--quiet"], input=stream, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lab.git("reset", "-q", "--hard")
    begun: list[str] = []
    real = subprocess.Popen.__init__

    def counted(self: Any, words: Any, *arguments: Any, **named: Any) -> None:
        begun.append(words[0])
        real(self, words, *arguments, **named)

    lab.pair.push("--force")
    follow = lab.follow()
    commit, _ = follow.select_commit()
    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    with pytest.raises(NotTrusted, match="and 995 more"):
        follow.verify_trust(commit)
    assert begun.count("git") < 12 and begun.count("ssh-keygen") == 1
    begun.clear()
    with pytest.raises(NotTrusted):
        follow.verify_trust(commit)
    assert "ssh-keygen" not in begun and begun.count("git") <= 3
    lab.owner_says(None, {})
    follow.verify_trust(commit)
    begun.clear()
    follow.verify_trust(commit)
    assert begun == []


def test_more_commits_than_are_judged_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit(sign="ssh")
    assert lab.verdict() == ""
    monkeypatch.setattr("reconciler.trust.gate.MAX_COMMITS", 2)
    for _ in range(3):
        lab.commit(sign="ssh")
    assert "more than 2 commits are new" in lab.verdict()


# Whose it is

OWNERS = """\
# The platform's people own everything, but for what stands below.
*                 ada@cluster.example
/sessions/bob/    bob@cluster.example   # Bob's own
/sessions/team/*  @team
/free/
"""


@pytest.fixture
def owned(lab: Lab) -> Lab:
    lab.owner_says(SSH, {"teams": {"@team": [mail("bob")]}})
    files = {
        "CODEOWNERS": OWNERS, "sessions/bob/b.yaml": "1", "sessions/ada.yaml": "1",
        "sessions/team/t.yaml": "1", "free/f.yaml": "1",
    }  # fmt: skip
    lab.commit(dict(files), sign="ssh")
    assert lab.verdict() == ""
    return lab


@pytest.mark.parametrize(
    "files",
    [
        {"sessions/bob/b.yaml": "2"}, {"sessions/bob/b.yaml": None}, {"sessions/bob/deep/er.yaml": "1"},
        {"sessions/team/t.yaml": "2"}, {"free/new.yaml": "1"},
    ],
)  # fmt: skip
def test_who_changes_his_own(owned: Lab, files: Files) -> None:
    owned.commit(files, who="bob", sign="ssh")
    assert owned.verdict() == ""


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"sessions/ada.yaml": "2"}, "sessions/ada.yaml"),
        ({"sessions/ada.yaml": None}, "sessions/ada.yaml"),
        ({"sessions/Bob/b.yaml": "1"}, "sessions/Bob/b.yaml"),
        ({"sessions/team/deep/t.yaml": "1"}, "sessions/team/deep/t.yaml"),
        ({"CODEOWNERS": "* bob@cluster.example\n"}, "CODEOWNERS"),
        ({"CODEOWNERS": None}, "CODEOWNERS"),
        ({"x/sessions/bob/b.yaml": "1"}, "x/sessions/bob/b.yaml"),
        ({"sessions/bob\n/b.yaml": "1"}, "such letters"),
        ({"sessions/bob/b\u202e.yaml": "1"}, "such letters"),
    ],
)
def test_who_changes_what_is_others(owned: Lab, files: Files, path: str) -> None:
    bad = owned.commit(files, who="bob", sign="ssh")
    said = owned.verdict()
    assert path in said and bad[:12] in said


def test_nobody_makes_himself_an_owner(owned: Lab) -> None:
    """Not in the same push either: what counts is what was accepted."""
    owned.commit({"CODEOWNERS": OWNERS + f"* {mail('bob')}\n"}, who="bob", sign="ssh")
    owned.commit({"sessions/ada.yaml": "2"}, who="bob", sign="ssh")
    said = owned.verdict()
    assert "CODEOWNERS: it is owned by" in said and "sessions/ada.yaml" in said


def test_who_was_made_an_owner_is_one_afterwards(owned: Lab) -> None:
    owned.commit({"CODEOWNERS": OWNERS + f"/sessions/ada.yaml {mail('bob')}\n"}, sign="ssh")
    assert owned.verdict() == ""
    owned.commit({"sessions/ada.yaml": "2"}, who="bob", sign="ssh")
    assert owned.verdict() == ""


def test_a_renamed_file_is_taken_out_of_its_folder(owned: Lab) -> None:
    owned.git("mv", "sessions/ada.yaml", "sessions/bob/ada.yaml")
    owned.commit(who="bob", sign="ssh")
    assert "sessions/ada.yaml: it is owned by ada" in owned.verdict()


def test_the_authors_name_is_only_a_claim(owned: Lab) -> None:
    owned.commit({"sessions/ada.yaml": "2"}, who="bob", sign="ssh", author="ada")
    assert f"and {mail('bob')} changed it" in owned.verdict()
    owned.owner_says(None, {})
    assert owned.verdict() == ""


def test_a_team_that_is_not_known_has_no_members(owned: Lab) -> None:
    """Nor can one call himself by its name."""
    owned.owner_says(None, {})
    env = {**as_person("bob"), "GIT_AUTHOR_EMAIL": "@team", "GIT_COMMITTER_EMAIL": "@team"}
    (owned.work / "sessions/team/t.yaml").write_text("2")
    subprocess.run(["git", "-C", str(owned.work), "commit", "-qam", "x"], env=env, check=True)
    assert "sessions/team/t.yaml: it is owned by @team" in owned.verdict()


def test_a_path_that_no_pattern_matches_is_nobodys(lab: Lab) -> None:
    lab.owner_says(None, {})
    lab.commit({"CODEOWNERS": f"/CODEOWNERS {mail('ada')}\n"})
    assert lab.verdict() == ""
    lab.commit({"a.yaml": "1"})
    assert "it is nobody's" in lab.verdict()


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("!a x@y", "2:1"), ("[Section]", "2:1"), ("a[bc] x@y", "2:1"), ("a nobody", "2:3"),
        ("/*a/*b/*c/*d x@y", "2:1"), ("/a/**/b/**/c x@y", "2:1"), ("/ x@y", "2:1"), ("a\\ x@y\\", "2:1"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_owners_leaves_the_last_good_ones(owned: Lab, line: str, place: str) -> None:
    owned.commit({"CODEOWNERS": f"* {mail('ada')}\n{line}\n"}, sign="ssh")
    assert f"CODEOWNERS:{place}: BAI-V094" in owned.verdict()


# Merges


@pytest.fixture
def forked(owned: Lab) -> Lab:
    """Bob has changed his own on a side, and Ada hers on main."""
    owned.git("switch", "-q", "-c", "side")
    owned.commit({"sessions/bob/b.yaml": "2"}, who="bob", sign="ssh")
    owned.git("switch", "-q", "main")
    owned.commit({"sessions/ada.yaml": "2"}, sign="ssh")
    return owned


def merged_by_bob(lab: Lab, files: Files) -> str:
    """Both become one by Bob's hand, with these files changed on the way."""
    lab.git("merge", "-q", "--no-ff", "--no-commit", "side", who="bob")
    return lab.commit(files, who="bob", sign="ssh")


def test_merging_what_owners_have_changed_is_everybodys(forked: Lab) -> None:
    merged_by_bob(forked, {})
    assert forked.verdict() == ""


@pytest.mark.parametrize(
    "files",
    [
        {"sessions/ada.yaml": "evil"}, {"sessions/ada.yaml": None}, {"CODEOWNERS": f"* {mail('bob')}\n"},
        {"sessions/new.yaml": "evil"},
    ],
)  # fmt: skip
def test_a_merge_that_brings_its_own(forked: Lab, files: Files) -> None:
    bad = merged_by_bob(forked, dict(files))
    said = forked.verdict()
    assert f"{bad[:12]}: {next(iter(files))}: it is owned by ada" in said


@pytest.mark.parametrize("turned", [False, True])
def test_a_merge_that_takes_back_what_the_other_side_did(forked: Lab, turned: bool) -> None:
    """The file is then as one of the sides has it: the one that never touched it."""
    if turned:
        forked.git("switch", "-q", "side")
        forked.git("branch", "-q", "-m", "main", "other")
        forked.git("branch", "-q", "-m", "side", "main")
        forked.git("branch", "-q", "-m", "other", "side")
    bad = merged_by_bob(forked, {"sessions/ada.yaml": "1"})
    assert f"{bad[:12]}: sessions/ada.yaml" in forked.verdict()


def test_more_sides_than_two_are_all_the_mergers(forked: Lab) -> None:
    forked.git("switch", "-q", "-c", "third", "side~1")
    forked.commit({"free/x.yaml": "1"}, who="bob", sign="ssh")
    forked.git("switch", "-q", "main")
    forked.git("merge", "-q", "--no-ff", "-m", "three", "side", "third", who="bob", sign="ssh")
    assert "sessions/ada.yaml" in forked.verdict()


# Orders, and who goes back


def test_who_goes_back_stays_within_what_was_accepted(owned: Lab) -> None:
    """An order to an older commit is followed without its signature's being asked for again, and does not
    make what came later unjudged."""
    oldest = git(owned.work, "rev-parse", "HEAD")
    owned.commit({"sessions/ada.yaml": "2"}, sign="ssh")
    assert owned.verdict() == ""
    (owned.own / "allowed").write_text(owned.keys.line("bob"))
    follow = owned.follow()
    follow.verify_trust(oldest)
    follow.accept(oldest)
    assert owned.verdict() == ""
    owned.commit({"sessions/bob/b.yaml": "2"}, who="bob", sign="ssh")
    assert owned.verdict() == ""


def test_an_order_does_not_replace_a_signature(lab: Lab) -> None:
    lab.commit({"a.yaml": "1"}, sign="ssh")
    assert lab.verdict() == ""
    bad = lab.commit({"a.yaml": "2"}, who="mallory")
    lab.pair.push(branch="elsewhere")
    follow = lab.follow()
    commit, _ = follow.select_commit()
    named, _ = follow.select_commit(bad)
    assert named == bad != commit
    with pytest.raises(NotTrusted, match="it is not signed"):
        follow.verify_trust(named)


# The loop, and the command


class Followed(Lab):
    """The same, with a loop and a fake cluster behind it."""

    def __init__(self, folder: Path, keys: Signers) -> None:
        self.site = Site(folder / "site")
        super().__init__(folder, keys)
        self.pair, self.work = self.site.pair, self.site.pair.work
        self.owner_says(SSH)
        found = load_trust_settings(self.own / "trust.yaml", [])
        assert found is not None
        self.site.gate = TrustGate(found)
        self.read_answer: list[ReconcileCycle] = []

    @contextmanager
    def loop(self, *, approval: bool = False) -> Iterator[Loop]:
        loop = self.site.loop(approval=approval)
        loop.add_listener(self.read_answer.append)
        try:
            yield loop
        finally:
            loop.workspace.close()

    def push(self, files: Files, *, who: str = "ada", sign: str = "") -> str:
        commit = self.commit(files, who=who, sign=sign)
        self.pair.push("--force")
        return commit


@pytest.fixture
def followed(tmp_path: Path, keys: Signers) -> Followed:
    return Followed(tmp_path, keys)


def test_the_loop_stays_at_what_was_good(followed: Followed) -> None:
    with pytest.raises(NotTrusted), followed.loop():
        pass
    good = followed.push({"x.txt": "begin"}, sign="ssh")
    with followed.loop() as loop:
        once(followed.site, loop)
        assert running(loop) == {"a"}
        bad = followed.push({"b.yaml": session("b")}, who="mallory", sign="ssh")
        said = once(followed.site, loop)
        assert any(bad[:12] in line and f"{good[:12]} stays in force" in line for line in said), said
        assert running(loop) == {"a"} and loop.workspace.commit == good
        assert "not among the allowed" in followed.read_answer[-1].signs["documents-refused"]
        assert once(followed.site, loop) == [], "it is told once"
        store, gate = loop.workspace.store, followed.site.gate
        anew = RevisionTracker(TrackedRef(followed.site.remote, "main"), store, "here", gate=gate)
        assert first_commit(anew) == good, "also when it begins anew"
        followed.git("reset", "-q", "--hard", good)
        new = followed.push({"c.yaml": session("c")}, sign="ssh")
        once(followed.site, loop)
        assert running(loop) == {"a", "c"} and loop.workspace.commit == new


@pytest.mark.parametrize("order", ["pin", "approve"])
def test_no_order_of_the_api_replaces_a_signature(followed: Followed, order: DirectiveKind) -> None:
    good = followed.push({"x.txt": "begin"}, sign="ssh")
    with followed.loop(approval=order == "approve") as loop:
        issue_directive(loop.workspace.store, "here", order, Directive("ada", 1.0, "", good))
        once(followed.site, loop)
        assert running(loop) == {"a"}
        bad = followed.push({"b.yaml": session("b")}, who="mallory")
        issue_directive(loop.workspace.store, "here", order, Directive("mallory", 2.0, "", bad))
        said = once(followed.site, loop)
        assert any("it is not signed" in line for line in said), said
        assert not any("waits for approval" in line for line in said)
        assert running(loop) == {"a"} and loop.workspace.commit == good


def test_the_command_says_who_is_not_trusted(lab: Lab, tmp_path: Path) -> None:
    lab.owner_says(SSH, {})
    repo = Repo(lab.work, {
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"), "XDG_STATE_HOME": str(tmp_path / "bai"),
        "BAI_TRUST": str(lab.own / "trust.yaml"), "COLUMNS": "200",
    })  # fmt: skip
    good = lab.commit({"cluster.yaml": CLUSTER, "CODEOWNERS": f"* {mail('ada')}\n"}, sign="ssh")
    lab.pair.push()
    remote = ("reconcile", "--once", "--remote", str(lab.pair.bare), "--ref", "main")
    repo.ok(*remote)
    repo.ok("plan", "--revision", good)
    lab.commit({"x.yaml": ""}, who="bob", sign="ssh")
    assert f"x.yaml: it is owned by {mail('ada')} (CODEOWNERS:1)" in repo("review", "--base", good).out
    lab.commit({"x.yaml": None, "y.txt": ""}, who="mallory")
    lab.pair.push()
    for words in (("review", "--base", good), ("plan", "--base", good)):
        said = repo(*words)
        assert said.code == 1 and "it is not signed" in said.out, said.out + said.err
    as_json = repo("review", "--base", good, "--format", "json").json
    assert [each["why"] for each in as_json["distrusted"]] == ["it is not signed"]
    assert "> - " in repo("review", "--base", good, "--format", "markdown").out
    said = repo("apply", "--yes", "--base", good, "--reviewed", as_json["digest"])
    assert said.code == 1 and "BAI-E0375" in said.err and "it is not signed" in said.err
    for words in (("plan",), ("apply", "--yes")):
        said = repo(*words, "--revision", "HEAD")
        assert said.code == 1 and "BAI-E0375" in said.err and "it is not signed" in said.err
    said = repo(*remote)
    assert said.code == 1 and f"{good[:12]} stays in force" in said.out, said.out + said.err
    said = repo("reconcile", "--once", str(lab.work))
    assert said.code == 1 and "only commits can be trusted" in said.err


# The owner's file


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("signatures: {}", ":1:13: BAI-V034"),
        ("signatures: {allowedSigners: allowed, commits: some}", "commits"),
        ("signatures: {allowedSigners: allowed, commits: tip}\nowners: {}", ":2:1: BAI-V034"),
        ("signatures: {allowedSigners: missing}", "No such file"),
        ("signatures: {openpgpKeys: [allowed]}", "no armored public key"),
        ("owners: {teams: {team: [x@y]}}", "team"),
        ("gates: {}", "gates"),
    ],
)
def test_a_mistake_in_the_owners_file(lab: Lab, text: str, what: str) -> None:
    (lab.own / "trust.yaml").write_text(text)
    with pytest.raises(BaiError) as raised:
        load_trust_settings(lab.own / "trust.yaml", [])
    assert what in " ".join([str(raised.value), *map(str, getattr(raised.value, "problems", ()))])


@pytest.mark.parametrize("name", ["trust.yaml", "allowed"])
def test_the_owners_files_are_the_owners(lab: Lab, name: str) -> None:
    (lab.own / name).chmod(0o666)
    with pytest.raises(BaiError, match="everybody may write to it"):
        load_trust_settings(lab.own / "trust.yaml", [])
    (lab.own / name).chmod(0o644)
    with pytest.raises(BaiError, match="lies in the repository"):
        load_trust_settings(lab.own / "trust.yaml", [lab.own])
    (lab.work / name).write_bytes((lab.own / name).read_bytes())
    (lab.own / name).unlink()
    (lab.own / name).symlink_to(lab.work / name)
    with pytest.raises(BaiError, match="lies in the repository"):
        load_trust_settings(lab.own / "trust.yaml", [lab.work])


def test_a_folder_of_keys(lab: Lab) -> None:
    folder = lab.own / "team"
    folder.mkdir()
    lab.owner_says({"openpgpKeys": ["team"]})
    with pytest.raises(BaiError, match="it holds no key"):
        load_trust_settings(lab.own / "trust.yaml", [])
    shutil.copy(lab.own / "keys.asc", folder)
    lab.commit(sign="gpg")
    assert lab.verdict() == ""
    folder.chmod(0o777)
    with pytest.raises(BaiError, match="everybody may write to it"):
        load_trust_settings(lab.own / "trust.yaml", [])


def test_what_the_owner_changes_counts_at_once(lab: Lab) -> None:
    follow = lab.follow()
    lab.commit(who="mallory", sign="ssh")
    lab.pair.push()
    commit, _ = follow.select_commit()
    with pytest.raises(NotTrusted):
        follow.verify_trust(commit)
    (lab.own / "allowed").write_text(lab.keys.line("mallory"))
    follow.verify_trust(commit)


def test_a_program_that_is_not_there_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit(sign="ssh")
    lab.pair.push()
    follow = lab.follow()
    commit, _ = follow.select_commit()
    only = lab.folder / "only-git"
    only.mkdir()
    (only / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(only))
    with pytest.raises(BaiError, match="ssh-keygen is not there") as raised:
        follow.verify_trust(commit)
    assert "openssh-client" in raised.value.hint
