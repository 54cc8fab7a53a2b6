"""What the labs say can be typed as it is."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from scripts import labs

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("sudo", [False, True])
def test_the_commands_can_be_copied(monkeypatch: pytest.MonkeyPatch, sudo: bool) -> None:
    monkeypatch.setenv("SUDO_USER", "ada") if sudo else monkeypatch.delenv("SUDO_USER", raising=False)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for lab in labs.LABS:
        lines = [shlex.split(line) for line in labs.words(lab).splitlines() if line.startswith("    ")]
        assert len(lines) == (6 if lab.words == labs.KUBERNETES else 5)
        for words in lines:
            assert (words[0] == "sudo") == sudo
            program, *rest = words[1:] if sudo else words
            if program == "env":
                assert rest[0] == f"KUBECONFIG={lab.link}/kubeconfig"
                program, *rest = rest[1:]
            if program == "make":
                assert set(rest) <= targets
            elif program == f"{lab.link}/bin/kubectl":
                assert rest[:2] == ["--kubeconfig", f"{lab.link}/kubeconfig"]
            else:
                assert os.access(ROOT / program, os.X_OK)
                assert (ROOT / rest[1] / "cluster.yaml").is_file()
