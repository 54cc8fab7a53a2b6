"""Who may commit writes templates, which are filled in wherever documents are read: by the loop, in a review,
by whoever plans. None takes time or memory beyond its size, and none reaches out."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tests.fuzz.targets import ROOT
from tests.harness.bai_process import Command, Done, run_bai

DOCUMENTS = """apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: declared}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
---
apiVersion: bai/v1
kind: SessionTemplate
metadata: {{name: t, project: p}}
spec:
  parameters: {{a: {{default: {default}{more}}}}}
  session:
    resources: {{cpu: 1, memory: 1GiB}}
    env:
      A: >-
        {text}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: s, project: p}}
spec: {{from: {{template: t}}}}
"""
LONG = "a" * 3000
pytestmark = pytest.mark.slow  # Each one is a command of its own.


def validated(folder: Path, text: str, *, default: str = "x", more: str = "") -> Done:
    """By the command, which may have 30 s of a processor and 1 GiB."""

    (folder / "a.yaml").write_text(DOCUMENTS.format(text=text, default=default, more=more))
    limits = {resource.RLIMIT_CPU: (30, 30), resource.RLIMIT_AS: (1 << 30, 1 << 30)}
    command = Command(["-C", str(folder), "validate"], os.environ, ROOT, limits=limits)
    return run_bai(command, timeout=600)


@pytest.mark.parametrize(
    "text",
    [
        "{{ a|center(10000000000) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%9999999999d'|format(1) }}",
        "{{ '{:>9999999999}'.format(1) }}",
        "{{ a.ljust(9999999999) }}",
        "{{ lipsum(9999999) }}",
        "{{ a|indent(9999999999) }}",
        "{{ a|batch(999999999, 0)|list }}",
        "{{ a|slice(1000000000)|list }}",
        "{{ range(99999999)|list|length }}",
        "{{ 7|round(999999999, 'ceil') }}",
        "{{ 7|round(-999999999) }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ a * 9999999999 }}",
        "{{ [a] * 9999999999 }}",
        "{{ [a] + [a] }}",
        "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3,
        "{% for i in a recursive %}{{ loop(a) }}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% set n = namespace(x=a) %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% set x = a ~ a %}" * 40 + "{{ x }}",
        "{{ " + "(" * 4000 + "a" + ")" * 4000 + " }}",
        "{{ " + "not " * 2000 + "a }}",
        "{{ " + " ~ ".join(["a"] * 2000) + " }}",
        "{{ [a]|map('center', 9999999999)|list }}",
        "{{ [a]|map('upper')|list }}",
        "{% include '/etc/passwd' %}",
        "{% extends a %}",
        "{{ a.__class__.__mro__ }}",
        "{{ a|attr('__class__') }}",
        "{{ self }}",
    ],
    ids=lambda text: text[:40],
)
def test_what_makes_much_of_little_is_refused(tmp_path: Path, text: str) -> None:
    done = validated(tmp_path, text)
    assert done.returncode == 1, done.stdout
    assert "a.yaml:" in done.stderr and "BAI-V055" in done.stderr
    assert "Traceback" not in done.stderr and "MemoryError" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "{{ a|list|join(a)|list|join(a) }}",
        "{{ a|replace('a', a)|replace('a', a)|replace('a', a) }}",
        "{{ a" + "|tojson" * 25 + " }}",
        "{{ " + " ~ ".join(["a"] * 99) + " }}",
    ],
    ids=lambda text: text[:40],
)
def test_long_values_make_no_huge_ones(tmp_path: Path, text: str) -> None:
    done = validated(tmp_path, text, default=LONG)
    assert done.returncode == 1, done.stdout
    assert "too long" in done.stderr


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){20}"])
def test_an_odd_pattern_takes_no_longer(tmp_path: Path, pattern: str) -> None:
    done = validated(tmp_path, "{{ a }}", default=LONG + "!", more=f", pattern: '{pattern}'")
    assert done.returncode == 1, done.stdout
    assert "does not match" in done.stderr


@pytest.mark.parametrize("pattern", ["[", "a{9999}{9999}{9999}", "(?=a)a", r"(a)\\1", "(" * 500])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str) -> None:
    done = validated(tmp_path, "{{ a }}", more=f', pattern: "{pattern}"')
    assert done.returncode == 1, done.stdout
    assert "not a regular expression" in done.stderr and "Traceback" not in done.stderr


def test_what_templates_are_for_works(tmp_path: Path) -> None:
    text = "{{ a|upper|replace('X', 'y') ~ '-' ~ (3 * 4)|string }}{% if a == 'x' %}!{% endif %}"
    done = validated(tmp_path, text)
    assert done.returncode == 0, done.stderr
