"""A node that lies about itself, and wants the machine that provisions it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROLES = Path(__file__).parents[2] / "roles"
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {{cacheable: true, os_family: "{path}"}}
    - ansible.builtin.include_role: {{name: {role}}}
"""
PATH = re.compile(
    r"(?:include_vars|include_tasks|import_tasks|include_role|import_role):((?:\n? .*)(?:\n {4,}.*)*)"
)


@pytest.mark.slow
@pytest.mark.skipif(not ANSIBLE.is_file(), reason="ansible is not installed")
def test_what_a_node_says_of_itself_names_no_file_here(tmp_path: Path) -> None:
    """What is in a file of variables is a template here, and runs programs. Any module's answer may change a
    node's facts, at any time."""
    (tmp_path / "evil.yml").write_text("evil: \"{{ lookup('pipe', 'id') }}\"\n")
    (tmp_path / "play.yml").write_text(PLAY.format(path=tmp_path / "evil", role="storage_client"))
    found = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_ROLES_PATH": str(ROLES),
    }
    words = [str(ANSIBLE), "--check", "-v", "-i", "localhost,", str(tmp_path / "play.yml")]
    done = subprocess.run(words, env=found, capture_output=True, text=True, check=False, timeout=150)
    loaded = re.findall(r'"ansible_included_var_files": \[\s*"([^"]+)"', done.stdout)
    assert [Path(each).name for each in loaded] == ["redhat.yml"], done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if (path / "tasks").is_dir()))
def test_no_role_takes_the_name_of_a_file_from_a_node(role: str) -> None:
    for task in (ROLES / role / "tasks").glob("*.yml"):
        for named in PATH.findall(task.read_text()):
            told = named.replace("ansible_facts.os_family == 'Debian'", "").replace("ansible_check_mode", "")
            assert "ansible_" not in told.partition("when:")[0], f"{task}: {named}"
