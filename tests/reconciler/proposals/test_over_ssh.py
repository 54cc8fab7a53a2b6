"""The same over SSH: what is spoken to a remote is git's own way, with the login that fetching has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.proposals.publish import Publisher
from tests.reconciler.gitops.repositories import git
from tests.reconciler.proposals.test_publish import BAI, Desk, accept

SSH = """\
#!/bin/sh
while [ $# -gt 1 ]; do shift; done
exec sh -c "$1"
"""
"""What is asked of the other machine is done here."""


def test_a_branch_and_the_followed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", os.fspath(program))
    desk = Desk(tmp_path, url=f"ssh://git@forge.example{tmp_path / 'forge.git'}")
    publisher = Publisher(desk.remote, "main", "", BAI)
    assert publisher.to_branch(desk.proposal(), accept).branch in desk.branches()
    done = publisher.to_followed(desk.proposal(b"a: 3\n"), accept)
    assert git(desk.pair.bare, "rev-parse", "main") == done.commit
