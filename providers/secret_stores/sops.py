"""Secrets in a file of the repository that SOPS has encrypted for age; the program `sops` decrypts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from providers.secret_stores.base import SecretUnreadable, decode_secret
from schemas.files.sops_files import SopsFile

PATIENCE = 60.0
_USUAL = "sops/age/keys.txt"


class SopsBackend:
    """One encrypted file, decrypted when its first entry is read."""

    def __init__(self, sealed: SopsFile, key_file: str = "") -> None:
        self._sealed, self._key_file = sealed, key_file
        self._lock = Lock()
        self._values: Mapping[str, Any] | None = None

    def read(self, entry: str) -> str:
        with self._lock:
            if self._values is None:
                self._values = self._decrypted()
        value = self._values.get(entry)
        if not isinstance(value, str):
            raise SecretUnreadable("it is not a text")
        return decode_secret(value.encode())

    def _decrypted(self) -> Mapping[str, Any]:
        program = shutil.which("sops")
        if program is None:
            raise SecretUnreadable("the program sops is not installed where bai runs")
        # What sops itself would look for elsewhere, it is given, or does not find: its environment and home
        # hold no other key, token or setting.
        with tempfile.TemporaryDirectory(prefix="bai-sops-") as home:
            own = {
                "PATH": os.defpath,
                "HOME": home,
                "SOPS_AGE_KEY_FILE": self._key_environment(),
                "LC_ALL": "C",
            }
            words = [program, "decrypt", "--input-type", "json", "--output-type", "json", "/dev/stdin"]
            try:
                done = subprocess.run(
                    words, input=self._sealed.text.encode(), capture_output=True, env=own, cwd=home,
                    timeout=PATIENCE, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SecretUnreadable(f"sops did not run to its end: {type(error).__name__}") from None
        if done.returncode != 0:
            raise SecretUnreadable(f"sops cannot decrypt {self._sealed.path}: {_reason(done.stderr)}")
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SecretUnreadable(f"sops made no mapping of {self._sealed.path}")
        return found

    def _key_environment(self) -> str:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        path = self._key_file or os.environ.get("SOPS_AGE_KEY_FILE") or str(home / _USUAL)
        if not Path(path).is_file():
            raise SecretUnreadable("there is no file of age identities; SOPS_AGE_KEY_FILE names one")
        return str(Path(path).absolute())


def _reason(told: bytes) -> str:
    """Why, in our own words: what sops says may repeat a part of the file."""
    words = told.decode("utf-8", "replace")
    if "MAC mismatch" in words or "Failed to verify data integrity" in words:
        return "it was changed by hand after it was encrypted (the checksum is wrong)"
    if "data key" in words:
        return "no identity in the file of age keys is a recipient"
    return "it is damaged, or not of this form"
