"""The real `cosign`, with keys of its own and no transparency log.

    def test_something(cosign: Cosign, registry: StartRegistry) -> None:
        key = cosign.key("release")
        cosign.sign(key, f"{lab.address}/tool@{digest}")

Debian has no package of it: `scripts/cosign.sh` builds it, and tests that ask for it are skipped by name
until that was done.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from tests.lab.cache import folder
from tests.lab.spaces import PATIENCE

KeyKind = Literal["ecdsa", "rsa"]
_OPENSSL = {
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
}


class Cosign:
    """Works in a folder; `key` gives names of files beside it, `NAME.key` and `NAME.pub`."""

    def __init__(self, work: Path) -> None:
        found = sorted(folder().glob("cosign-*/cosign"))
        if not found:
            pytest.skip("cosign is not built: scripts/cosign.sh does that")
        self.program = found[-1]
        self.work = work

    def key(self, name: str, kind: KeyKind | None = None) -> str:
        """A new pair; as cosign makes it, or of another kind by OpenSSL and imported."""
        if kind is None:
            self.run("generate-key-pair", "--output-key-prefix", name)
        else:
            own = self.work / f"{name}.pem"
            subprocess.run(
                ["openssl", "genpkey", *_OPENSSL[kind], "-out", own], check=True, capture_output=True
            )
            self.run("import-key-pair", "--key", str(own), "--output-key-prefix", name)
        return name

    def public(self, name: str) -> str:
        """The public key in PEM."""
        return (self.work / f"{name}.pub").read_text()

    def file(self, name: str) -> Path:
        """Where the public key is."""
        return self.work / f"{name}.pub"

    def sign(self, key: str, image: str, *, bundle: bool = False) -> None:
        """Sign an image, named by its digest; `bundle`: as cosign 3 does."""
        self.run(
            "sign", "--key", f"{key}.key", "--tlog-upload=false", "--allow-http-registry", "--yes",
            *(["--new-bundle-format"] if bundle else []), image,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.work), "COSIGN_PASSWORD": "lab"}
        done = subprocess.run(
            [self.program, *words], cwd=self.work, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cosign(tmp_path_factory: pytest.TempPathFactory) -> Cosign:
    return Cosign(tmp_path_factory.mktemp("cosign"))
