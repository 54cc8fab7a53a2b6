"""bai's strategy against Ansible's own: the same play has the same story, and fewer processes.

With two hosts, tasks that ask their node have processes of their own; with one host, none has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from providers.ansible.files import STRATEGIES

PLAY = """
- hosts: all
  gather_facts: false
  vars:
    word: one
    derived: "{{ word }} and more"
  tasks:
    - name: a value
      ansible.builtin.set_fact: {number: 1, text: "{{ derived }}"}
    - name: in a loop
      ansible.builtin.set_fact: {"{{ item.name }}": "{{ item.value }}"}
      loop: [{name: left, value: 2}, {name: right, value: "{{ number }}"}]
      loop_control: {label: "{{ item.name }}"}
      register: looped
    - name: an empty loop
      ansible.builtin.command: "false"
      loop: []
    - name: left out
      ansible.builtin.command: "false"
      when: number == 2
    - name: left out of a loop
      ansible.builtin.command: "echo {{ item }}"
      loop: [1, 2]
      when: item == 2
    - name: done
      ansible.builtin.command: "echo {{ text }}"
      when: number == 1
      register: done
      changed_when: done.stdout == "one and more"
      notify: heard
    - name: only where the first one is
      ansible.builtin.set_fact: {once: "{{ inventory_hostname }}"}
      run_once: true
    - name: of one host
      ansible.builtin.assert: {that: done.stdout != "", fail_msg: "no"}
      when: inventory_hostname == "b"
    - name: included
      ansible.builtin.include_tasks: more.yml
      loop: [x, y]
      loop_control: {loop_var: letter}
      vars: {given: "{{ letter }}!"}
    - name: not included
      ansible.builtin.include_tasks: missing.yml
      when: left == 3
    - name: from a file
      ansible.builtin.include_vars: values.yml
    - name: fails and does not matter
      ansible.builtin.assert: {that: from_file == 5, fail_msg: "{{ from_file }} is not 5"}
      ignore_errors: true
      register: wrong
    - name: fails and is rescued
      block:
        - name: for no reason
          ansible.builtin.fail: {msg: "because of {{ wrong.msg }}"}
      rescue:
        - name: rescued
          ansible.builtin.debug: {var: ansible_failed_result.msg}
      always:
        - name: in any case
          ansible.builtin.debug: {msg: "{{ seen | join(',') }}", verbosity: 0}
    - name: hidden
      ansible.builtin.set_fact: {secret: "{{ word }}"}
      no_log: true
    - name: failed when
      ansible.builtin.debug: {msg: hello}
      failed_when: number == 1
      changed_when: true
      ignore_errors: true
    - name: what nobody defined
      ansible.builtin.command: "true"
      when: nobody.defined
      ignore_errors: true
    - name: nor this
      ansible.builtin.set_fact: {it: "{{ nobody }}"}
      ignore_errors: true
    - name: until it is so
      ansible.builtin.debug: {msg: "{{ number }}"}
      until: number == 1
      retries: 2
      delay: 0
    - name: elsewhere
      ansible.builtin.set_fact: {of_a: "{{ inventory_hostname }}"}
      delegate_to: a
    - name: the last words
      ansible.builtin.fail: {msg: "{{ inventory_hostname }} has {{ once }}, {{ right }}"}
      when: inventory_hostname == "b"
    - name: who is left
      ansible.builtin.debug: {msg: "{{ looped.results | length }}"}
  handlers:
    - name: heard
      ansible.builtin.debug: {msg: "heard {{ text }}"}
"""
MORE = """
- name: more
  ansible.builtin.set_fact: {seen: "{{ (seen | default([])) + [given] }}"}
- name: more for a
  ansible.builtin.debug: {msg: "{{ given }}"}
  when: inventory_hostname == "a"
"""
WHO = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {who: "{{ lookup('pipe', 'echo $PPID') }}"}
    - ansible.builtin.command: "echo {{ lookup('pipe', 'echo $PPID') }}"
      register: asked
    - ansible.builtin.debug: {msg: "{{ lookup('pipe', 'echo $PPID') }} {{ who }} {{ asked.stdout }}"}
"""


Story = dict[str, list[tuple[str, Any]]]
"""By host: name and result of each task that ran there, in order."""


class Ansible:
    """Hosts that are this machine. One command carries out both plays, once for a strategy and its hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plays: dict[tuple[str, ...], tuple[Story, Story]] = {}
        for name, text in {
            "plays.yml": WHO + PLAY,
            "more.yml": MORE,
            "values.yml": "from_file: 4\n",
        }.items():
            (folder / name).write_text(text)

    def story(self, strategy: str, hosts: Sequence[str]) -> Story:
        return self._carried_out(strategy, hosts)[1]

    def pids(self, strategy: str, *hosts: str) -> set[str]:
        """Processes that carried out the three tasks of `WHO`."""
        return set(self._carried_out(strategy, hosts)[0]["a"][-1][1]["msg"].split())

    def _carried_out(self, strategy: str, hosts: Sequence[str]) -> tuple[Story, Story]:
        """Of `WHO` and `PLAY`, in the end of which hosts fail."""
        if (strategy, *hosts) not in self._plays:
            who, play = self._told(strategy, hosts)
            self._plays[strategy, *hosts] = _story(who, hosts), _story(play, hosts)
        return self._plays[strategy, *hosts]

    def _told(self, strategy: str, hosts: Sequence[str]) -> list[dict[str, Any]]:
        chosen = {
            "ANSIBLE_STRATEGY": strategy, "ANSIBLE_STRATEGY_PLUGINS": str(STRATEGIES),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_INJECT_FACT_VARS": "False",
            "ANSIBLE_TASK_TIMEOUT": "300", "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_DEPRECATION_WARNINGS": "False", "ANSIBLE_HOME": str(self.folder / "home"),
        }  # fmt: skip
        inventory = "".join(f"{host}," for host in hosts)
        words = ["-i", inventory, "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", *words, str(self.folder / "plays.yml")],
            env=os.environ | chosen, cwd=self.folder, text=True, capture_output=True, check=False,
            timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.stdout, done.stderr
        told: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["plays"]
        return told


def _story(play: dict[str, Any], hosts: Sequence[str]) -> Story:
    found: Story = {host: [] for host in hosts}
    for task in play["tasks"]:
        for host, result in task["hosts"].items():
            found[host].append((task["task"]["name"], _without_times(result)))
    return found


def _without_times(value: Any) -> Any:
    """What differs from run to run is left out."""
    if isinstance(value, dict):
        left_out = ("start", "end", "delta", "duration", "id", "path")
        return {key: _without_times(each) for key, each in value.items() if key not in left_out}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Ansible:
    return Ansible(tmp_path_factory.mktemp("strategy"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("hosts", [("a", "b"), ("a",), ("b",)], ids="+".join)
def test_the_story_is_that_of_ansibles_own_strategy(ansible: Ansible, hosts: Sequence[str]) -> None:
    expected = ansible.story("linear", hosts)
    last = {"a": "heard", "b": "the last words"}
    assert {host: tasks[-1][0] for host, tasks in expected.items()} == {host: last[host] for host in hosts}
    assert all(len(tasks) > 20 for tasks in expected.values())
    ours = ansible.story("bai_linear", hosts)
    for host, tasks in expected.items():
        for own, other in zip(ours[host], tasks, strict=True):
            assert own == other


def test_what_asks_no_node_has_no_process_of_its_own(ansible: Ansible) -> None:
    assert len(ansible.pids("bai_linear", "a", "b")) == 2
    assert len(ansible.pids("linear", "a", "b")) == 3


def test_where_nobody_else_waits_no_task_has_a_process_of_its_own(ansible: Ansible) -> None:
    assert len(ansible.pids("bai_linear", "a")) == 1
    assert len(ansible.pids("linear", "a")) == 3
