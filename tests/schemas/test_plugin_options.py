"""Options of a stranger's plugin are held to the schema that it declares, at the place where they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo
from planner.queue.base import QueueView
from reconciler.workspace.placement_policies import load_policies
from schemas.loading.loader import load_directory
from schemas.plugins.entry_points import PROVIDERS, QUEUE
from schemas.plugins.options import DEEPEST, LONGEST, MOST_ISSUES, MOST_VALUES, option_issues
from schemas.problems.errors.repository import InvalidRepository
from tests.lab.plugins import SitePackages, site_packages
from tests.planner.support import session

__all__ = ["site_packages"]

ROOT = Path(__file__).parents[2]
MODULE = "queue_of_a_test"
LOTTERY = """\
def lottery(pending, view):
    yield from pending


lottery.options_schema = {
    "type": "object",
    "properties": {
        "seed": {"type": "integer", "minimum": 0, "description": "any whole number from 0"},
        "rule": {"enum": ["fair", "wild"]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
        "odds": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMaximum": 1}},
        "days": {"items": {"anyOf": [{"type": "integer"}, {"const": "never"}]}, "minItems": 2},
    },
    "required": ["seed"],
    "additionalProperties": False,
}
"""
DOCUMENTS = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: declared}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: main}}
spec:
  queue: {queue}
  queueOptions:
    plugin: {options}
"""


@pytest.fixture
def lottery(site_packages: SitePackages) -> SitePackages:
    site_packages.install(MODULE, LOTTERY, QUEUE, "lottery", "lottery")
    return site_packages


def problems(folder: Path, options: str, queue: str = "lottery") -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "bai.yaml").write_text(DOCUMENTS.format(queue=queue, options=options))
    try:
        load_directory(folder)
    except InvalidRepository as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.usefixtures("lottery")
def test_options_that_the_schema_allows_are_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "r", "{seed: 7, rule: wild, odds: {a: 0.5}, days: [1, never]}") == []


@pytest.mark.usefixtures("lottery")
@pytest.mark.parametrize(
    ("options", "column", "told"),
    [
        ("{seed: x}", 20, "BAI-V031 (@.seed): 'x' is not a whole number; any whole number from 0"),
        ("{}", 13, "BAI-V021 (@): the option 'seed' is missing; any whole number from 0"),
        ("{seed: 1, odds: {a: 2}}", 33, "BAI-V032 (@.odds.a): 2 is out of range: it must be less than 1"),
        ("{seed: 1, rulr: fair}", 23, "BAI-V020 (@.rulr): unknown option 'rulr'; did you mean 'rule'?"),
        ("{seed: 1, rule: dull}", 29, "BAI-V030 (@.rule): 'dull' is not one of 'fair', 'wild'"),
        ("{seed: 1, code: A}", 29, "BAI-V032 (@.code): 'A' does not match '^[a-z]+$'"),
        ("{seed: 1, code: abcde}", 29, "BAI-V032 (@.code): at most 4 needed, 5 given"),
        ("{seed: 1, days: [1]}", 29, "BAI-V032 (@.days): at least 2 needed, 1 given"),
        ("{seed: 1, days: [1, x]}", 33, "BAI-V050 (@.days[1]): 'x' is not what the plugin wants (anyOf)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_where_it_stands(tmp_path: Path, options: str, column: int, told: str) -> None:
    (problem,) = problems(tmp_path / "r", options)
    assert problem == f"bai.yaml:12:{column}: {told.replace('@', 'spec.queueOptions.plugin')}"


def test_nothing_is_known_of_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    assert problems(tmp_path / "r", "{seed: x}") == []


def test_a_plugin_without_a_schema_takes_anything(tmp_path: Path, site_packages: SitePackages) -> None:
    text = LOTTERY.partition("lottery.options_schema")[0]
    site_packages.install(MODULE, text, QUEUE, "lottery", "lottery")
    assert problems(tmp_path / "r", "{seed: x}") == []


def test_a_plugin_that_cannot_be_loaded_is_a_problem_of_who_names_it(
    tmp_path: Path, site_packages: SitePackages
) -> None:
    site_packages.install(MODULE, "raise OSError('no licence')", QUEUE, "lottery", "lottery")
    (problem,) = problems(tmp_path / "r", "{}")
    assert (
        "10:10: BAI-V050 (spec.queue): the plugin 'lottery' cannot be loaded: OSError: no licence" in problem
    )


def test_options_of_a_provider_are_checked_too(tmp_path: Path, site_packages: SitePackages) -> None:
    text = (
        "def open_cloud(options, *, state_root, machines): raise NotImplementedError\n"
        "open_cloud.options_schema = {'properties': {'region': {'type': 'string'}}}\n"
    )
    site_packages.install(MODULE, text, PROVIDERS, "cloud", "open_cloud")
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "bai.yaml").write_text(
        "apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: here}\n"
        "spec:\n  provider: cloud\n  options: {region: 7}\n"
    )
    with pytest.raises(InvalidRepository) as caught:
        load_directory(folder)
    (problem,) = caught.value.problems
    assert str(problem).startswith("bai.yaml:6:21: BAI-V031 (spec.options.region): 7 is not a text; put it")


def test_a_built_in_queue_is_nobodys_to_replace(tmp_path: Path, site_packages: SitePackages) -> None:
    site_packages.install(MODULE, "raise OSError", QUEUE, "fifo", "lottery")
    assert problems(tmp_path / "r", "{}", queue="fifo") == []


def test_the_example_in_the_documentation(
    tmp_path: Path, site_packages: SitePackages, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    blocks = {
        kind: re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0]
        for kind in ("python", "toml", "yaml", "text")
    }
    ((module, _, target),) = re.findall(r'"(\w+\.\w+)(:)(\w+)"', blocks["toml"])
    group, name = QUEUE, "lottery"
    assert f'entry-points."{group}"' in blocks["toml"] and blocks["toml"].splitlines()[1].startswith(name)
    site_packages.install(MODULE, blocks["python"], group, name, target)
    assert module == "my_package.queues"
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "cluster.yaml").write_text(DOCUMENTS.partition("---")[0].format())
    (folder / "bai.yaml").write_text(blocks["yaml"])
    with pytest.raises(InvalidRepository) as caught:
        load_directory(folder)
    assert [str(problem) for problem in caught.value.problems] == blocks["text"].splitlines()
    (folder / "bai.yaml").write_text(blocks["yaml"].replace("seven", "7"))
    load_directory(folder)
    order = load_policies([name], []).queue[name]
    group_info = GroupInfo("main", queue=name, queue_options={"seed": 7})
    sessions = [session(f"s{at}") for at in range(9)]
    drawn = list(order(sessions, QueueView(group_info, PlanTime(0.0), {})))
    assert sorted(one.id for one in drawn) == [one.id for one in sessions] and drawn != sessions


# Schemas and options that were never meant to be


def messages(schema: object, options: dict[str, object]) -> list[str]:
    return [issue.message for issue in option_issues(schema, options, ("spec",))]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "text"}, "'text' is not valid"),
        ({"properties": {"a": {"pattern": "("}}}, "this is not a regular expression"),
        ({"properties": {"a": {"pattern": "(?=b)b"}}}, "this is not a regular expression"),
        ({"items": [{"patternProperties": {"a": {}}}]}, "is not"),
        ({"allOf": [{"patternProperties": {"a": {}}}]}, "it has patternProperties"),
        (["no schema"], "is not of type"),
        ({"$ref": "#"}, "RecursionError"),
        ({"$ref": "#/$defs/none"}, "PointerToNowhere"),
    ],
)
def test_a_schema_that_is_none_is_the_plugins_fault(schema: object, why: str) -> None:
    (message,) = messages(schema, {"a": "b"})
    assert message.startswith("the plugin's options_schema cannot be used: ") and why in message


def nested(levels: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"a": list(range(MOST_VALUES - 1))}, f"made of at most {MOST_VALUES} values"),
        (nested(DEEPEST + 1), f"nested at most {DEEPEST} levels deep"),
        ({"a": "x" * (LONGEST + 1)}, f"at most {LONGEST} characters"),
        ({"x" * (LONGEST + 1): 1}, f"at most {LONGEST} characters"),
    ],
)
def test_what_is_too_large_never_reaches_the_schema(options: dict[str, object], told: str) -> None:
    (message,) = messages({"$ref": "#"}, options)
    assert told in message


@pytest.mark.parametrize(
    "options", [{"a": list(range(MOST_VALUES - 2))}, nested(DEEPEST), {"a": "x" * LONGEST}]
)
def test_what_is_just_small_enough_is_checked(options: dict[str, object]) -> None:
    assert messages({"properties": {"a": {"not": {}}}}, options) != []


def test_only_so_many_problems_are_told() -> None:
    found = messages({"additionalProperties": {"type": "string"}}, {f"n{at}": at for at in range(500)})
    assert len(found) == MOST_ISSUES


def test_a_group_without_a_plugin_loads_no_jsonschema() -> None:
    code = (
        "import sys; from schemas.rules.document_rules import check_document;"
        "from schemas.kinds.resource_group import ResourceGroup;"
        "group = ResourceGroup(apiVersion='bai/v1', kind='ResourceGroup', metadata={'name': 'g'});"
        "list(check_document(group)); print('jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
