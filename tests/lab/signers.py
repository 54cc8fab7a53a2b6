"""People who sign commits: real keys of OpenSSH and GnuPG, and git that signs with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LONG_AGO = "20200101T000000"


def mail(name: str) -> str:
    return f"{name}@cluster.example"


@dataclass(frozen=True)
class Signers:
    """Keys below `folder`, by name: SSH keys `NAME` and `NAME.pub`, and GnuPG's in `gnupg`."""

    folder: Path

    @property
    def gnupg(self) -> Path:
        return self.folder / "gnupg"

    def ssh_key(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path))
        return path

    def line(self, name: str, options: str = "", principals: str = "") -> str:
        """Of a file of allowed signers."""
        key = self.ssh_key(name).with_name(f"{name}.pub").read_text().strip()
        return f"{principals or mail(name)} {options + ' ' if options else ''}{key}\n"

    def gpg_key(self, name: str, expires: str = "never", *, at: str = "") -> str:
        """The fingerprint of a new key, made at this time."""
        time = ("--faked-system-time", f"{at}!") if at else ()
        who = f"{name.title()} <{mail(name)}>"
        self.gpg(*time, "--passphrase", "", "--quick-gen-key", who, "ed25519", "sign", expires)
        listed = self.gpg("--with-colons", "--list-keys", mail(name))
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))

    def revoke(self, fingerprint: str) -> None:
        certificate = self.gnupg / "openpgp-revocs.d" / f"{fingerprint}.rev"
        certificate.write_text(certificate.read_text().replace(":-----BEGIN", "-----BEGIN"))
        self.gpg("--import", str(certificate))

    def armored(self, *names: str) -> str:
        return self.gpg("--export", "--armor", *map(mail, names))

    def gpg(self, *arguments: str) -> str:
        words = ("gpg", "--homedir", str(self.gnupg), "--batch", "--pinentry-mode", "loopback")
        return self._run(*words, *arguments)

    def git_options(self, kind: str, name: str) -> list[str]:
        """With which git signs as this person: `ssh`, `gpg`, `gpg-long-ago`, or not at all."""
        if not kind:
            return ["-c", "commit.gpgSign=false"]
        if kind == "ssh":
            return ["-c", "commit.gpgSign=true", "-c", "gpg.format=ssh",
                    "-c", f"user.signingKey={self.ssh_key(name)}"]  # fmt: skip
        program = self.folder / kind
        if not program.exists():
            time = f"--faked-system-time {LONG_AGO}!" if kind == "gpg-long-ago" else ""
            program.write_text(f'#!/bin/sh\nexec gpg --homedir "{self.gnupg}" {time} "$@"\n')
            program.chmod(0o755)
        return ["-c", "commit.gpgSign=true", "-c", f"gpg.program={program}", "-c", "gpg.format=openpgp",
                "-c", f"user.signingKey={mail(name)}"]  # fmt: skip

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def signers() -> Iterator[Signers]:
    """A folder with a short path, as a socket of GnuPG's lies in it."""
    folder = Path(tempfile.mkdtemp(prefix="signers-"))
    try:
        (folder / "gnupg").mkdir(mode=0o700)
        yield Signers(folder)
    finally:
        subprocess.run(
            ["gpgconf", "--homedir", str(folder / "gnupg"), "--kill", "all"], capture_output=True, check=False
        )
        shutil.rmtree(folder, ignore_errors=True)


def as_person(name: str, author: str = "") -> dict[str, str]:
    """The environment in which git takes this person for the committer, and for the author too."""
    return {
        **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": mail(author or name),
        "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": mail(name),
    }  # fmt: skip
