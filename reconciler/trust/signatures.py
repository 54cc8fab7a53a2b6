"""Signatures of commits, verified by OpenSSH and GnuPG themselves.

Git is not asked to: it takes the kind of a signature from the commit, programs and keys from settings of the
user and of the repository, and the time of an expired key from what the commit says of itself. Here the
owner's keys lie in a folder of their own, each program is started with nothing else, and a key must be good
now: each commit is verified once, when it comes.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from reconciler.trust.values import Commit, CommitRefusal, TrustPolicy, VerifiedCommit
from schemas.files.git_process import TIMEOUT
from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable

_SSH_SIGNATURE = re.compile(
    rb"-----BEGIN SSH SIGNATURE-----\n[A-Za-z0-9+/=\n]+\n-----END SSH SIGNATURE-----\n?"
)
_PGP_SIGNATURE = re.compile(
    rb"-----BEGIN PGP SIGNATURE-----\n(?:[A-Za-z]+: [^\n]*\n)*\n[A-Za-z0-9+/=\n]+\n"
    rb"-----END PGP SIGNATURE-----\n*"
)
_GOOD_SSH = re.compile(rb'Good "git" signature for .* with \S+ key (SHA256:\S+)\n')
_EMAIL = re.compile(r"<([^<>]+)>$")
_WEAK_HASHES = ("1", "2", "3")
"""Hash functions that GnuPG may still accept: MD5, SHA-1, RIPEMD-160."""
_BINARY_SIGNATURE = "00"
_STATUS_REASONS = {
    "BADSIG": "its signature is not over this commit",
    "ERRSIG": "its OpenPGP key is not among those that are allowed",
    "EXPSIG": "its signature has expired",
    "EXPKEYSIG": "its OpenPGP key has expired",
    "REVKEYSIG": "its OpenPGP key was revoked",
}


class SignatureVerifier:
    """The owner's keys, ready for use, until it is left. Raises CannotRead where a program is missing, or
    cannot use the keys."""

    def __init__(self, trust: TrustPolicy) -> None:
        self._trust = trust
        self._folder = tempfile.TemporaryDirectory(prefix="bai-trust-")
        self._home = Path(self._folder.name)
        self._key_emails: dict[str, frozenset[str]] = {}

    def __enter__(self) -> SignatureVerifier:
        try:
            (self._home / "allowed").write_bytes(self._trust.allowed_signers)
            (self._home / "revoked").write_bytes(self._trust.revoked_keys)
            if self._trust.openpgp_keys:
                self._import_openpgp_keys()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def verify(self, commits: Sequence[Commit]) -> list[VerifiedCommit | CommitRefusal]:
        """What comes of each; several at a time."""
        with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as several:
            return list(several.map(self._verify_commit, commits))

    def _verify_commit(self, commit: Commit) -> VerifiedCommit | CommitRefusal:
        if not commit.signature:
            return CommitRefusal(commit.name, "it is not signed")
        if _SSH_SIGNATURE.fullmatch(commit.signature):
            if not self._trust.allowed_signers:
                return CommitRefusal(commit.name, "it is signed with an SSH key, and only OpenPGP counts")
            return self._verify_ssh(commit)
        if _PGP_SIGNATURE.fullmatch(commit.signature):
            if not self._trust.openpgp_keys:
                return CommitRefusal(commit.name, "it is signed with OpenPGP, and only SSH keys count")
            return self._verify_openpgp(commit)
        return CommitRefusal(commit.name, "its signature is neither one of SSH nor one of OpenPGP")

    # SSH

    def _verify_ssh(self, commit: Commit) -> VerifiedCommit | CommitRefusal:
        signature = self._write_signature(commit)
        done = self._run_ssh_verify(commit, signature, revoked=bool(self._trust.revoked_keys))
        match = _GOOD_SSH.fullmatch(done.stdout)
        if done.returncode == 0 and match:
            return VerifiedCommit(commit.name, commit.committer, "ssh", match.group(1).decode("ascii"))
        return CommitRefusal(
            commit.name, self._ssh_refusal_reason(commit, signature, _first_line(done.stderr))
        )

    def _run_ssh_verify(
        self, commit: Commit, signature: str, *, revoked: bool
    ) -> subprocess.CompletedProcess[bytes]:
        asked = ["-Y", "verify", "-f", "allowed", "-I", commit.committer, "-n", "git", "-s", signature]
        asked += ["-r", "revoked"] if revoked else []
        return self._run("ssh-keygen", *asked, data=commit.signed)

    def _ssh_refusal_reason(self, commit: Commit, signature: str, said: str) -> str:
        asked = ("check-novalidate", "-n", "git", "-s", signature)
        if self._run("ssh-keygen", "-Y", *asked, data=commit.signed).returncode:
            return "its signature is not over this commit"
        owners = self._run("ssh-keygen", "-Y", "find-principals", "-f", "allowed", "-s", signature)
        if owners.returncode:
            why = _first_line(owners.stderr)
            hint = "" if "No principal matched" in why else f" ({why})"
            return f"its SSH key is not among the allowed signers{hint}"
        if self._trust.revoked_keys and not self._run_ssh_verify(commit, signature, revoked=False).returncode:
            return "its SSH key was revoked"
        whose = printable(owners.stdout.decode("utf-8", "replace").strip().replace("\n", ", "))
        more = f" ({said})" if said else ""
        return f"its SSH key is that of {whose}, which does not count for {commit.committer}{more}"

    # OpenPGP

    def _import_openpgp_keys(self) -> None:
        (self._home / "gnupg").mkdir(mode=0o700)
        for number, key in enumerate(self._trust.openpgp_keys):
            (self._home / f"key-{number}").write_bytes(key)
        names = [f"key-{number}" for number in range(len(self._trust.openpgp_keys))]
        done = self._gpg("--import", *names)
        listed = self._gpg("--with-colons", "--fixed-list-mode", "--list-keys")
        if done.returncode or listed.returncode:
            raise CannotRead(what="the OpenPGP keys", why=_first_line(done.stderr + listed.stderr))
        self._key_emails = _key_emails(listed.stdout.decode("utf-8", "replace"))

    def _verify_openpgp(self, commit: Commit) -> VerifiedCommit | CommitRefusal:
        done = self._gpg("--verify", self._write_signature(commit), "-", data=commit.signed)
        said = [line.split()[1:] for line in done.stdout.decode("utf-8", "replace").splitlines()]
        kinds = [words[0] for words in said if words]
        for kind, why in _STATUS_REASONS.items():
            if kind in kinds:
                return CommitRefusal(commit.name, why)
        valid = [words for words in said if words[:1] == ["VALIDSIG"]]
        once = all(kinds.count(kind) == 1 for kind in ("NEWSIG", "GOODSIG", "VALIDSIG"))
        if done.returncode or not once or len(valid[0]) < 11:
            return CommitRefusal(
                commit.name, f"its signature cannot be verified ({_first_line(done.stderr)})"
            )
        _, _, _, _, _, _, _, _, digest, form, primary = valid[0][:11]
        if digest in _WEAK_HASHES or form != _BINARY_SIGNATURE:
            return CommitRefusal(commit.name, "its signature is of a kind that is not safe any more")
        whose = self._key_emails.get(primary, frozenset())
        if commit.committer not in whose:
            names = ", ".join(sorted(whose)) or "nobody"
            why = f"its OpenPGP key is that of {names}, which does not count for {commit.committer}"
            return CommitRefusal(commit.name, why)
        return VerifiedCommit(commit.name, commit.committer, "openpgp", primary)

    def _gpg(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return self._run(
            "gpg", "--homedir", "gnupg", "--no-options", "--batch", "--no-tty", "--status-fd", "1",
            "--trust-model", "always", "--no-auto-key-retrieve", "--no-auto-key-locate", "--disable-dirmngr",
            "--no-autostart", "--lock-never", *arguments, data=data,
        )  # fmt: skip

    # Programs

    def _write_signature(self, commit: Commit) -> str:
        name = f"signature-{commit.name}"
        (self._home / name).write_bytes(commit.signature)
        return name

    def _run(self, program: str, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        home = self._folder.name
        known = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": home, "TZ": "UTC"}
        try:
            return subprocess.run(
                [program, *arguments], cwd=home, env=known, input=data, capture_output=True, check=False,
                timeout=TIMEOUT,
            )  # fmt: skip
        except FileNotFoundError:
            package = "gnupg" if program == "gpg" else "openssh-client"
            why, hint = f"{program} is not there to verify them", f"install it (Debian package {package})"
            raise CannotRead(what="signatures of commits", why=why, hint=hint) from None
        except subprocess.TimeoutExpired:
            why = f"{program} does not end within {TIMEOUT:g} s"
            raise CannotRead(what="signatures of commits", why=why) from None


def _key_emails(listing: str) -> dict[str, frozenset[str]]:
    """Fingerprint of a key → e-mail addresses of it that are neither revoked nor expired, from GnuPG's
    `--with-colons`."""
    found: dict[str, set[str]] = {}
    primary, fresh = "", False
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] == "pub":
            fresh = True
        elif fields[0] == "fpr" and fresh:
            primary, fresh = fields[9], False
            found[primary] = set()
        elif fields[0] == "uid" and primary and fields[1] not in ("r", "e"):
            name = re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match.group(1), 16)), fields[9])
            match = _EMAIL.search(name)
            found[primary].add(match.group(1) if match else name)
    return {key: frozenset(mails) for key, mails in found.items()}


def _first_line(said: bytes) -> str:
    """The first thing that a program says, for a message."""
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return printable(lines[0])[:200] if lines else ""
