"""The published JSON Schemas: valid, and of one mind with the models."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from schemas.files.yaml_reader import read_documents
from schemas.kinds.kind_registry import KINDS
from schemas.loading import json_schema
from schemas.loading.documents import parse_resource
from tests.schemas.examples import PLACES, document
from tests.schemas.profile_example import PROFILE, RHEL

Validators = Mapping[str, jsonschema_rs.Draft202012Validator]
UNION = "bai.json"
NAMES = [*(f"{kind.lower()}.json" for kind in KINDS), UNION]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Any]:
    return {name: json.loads(text) for name, text in json_schema.schema_files()}


@pytest.fixture(scope="module")
def validators(schemas: Mapping[str, Any]) -> Validators:
    return {name: jsonschema_rs.Draft202012Validator(schema) for name, schema in schemas.items()}


def of(kind: str) -> str:
    return f"{kind.lower()}.json"


def test_a_stale_file_is_noticed(tmp_path: Path) -> None:
    json_schema.write_files(tmp_path)
    assert json_schema.stale_files(tmp_path) == []
    (tmp_path / "node.json").write_text("{}")
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "user.json").unlink()
    assert json_schema.stale_files(tmp_path) == ["node.json", "old.json", "user.json"]
    json_schema.write_files(tmp_path)
    assert json_schema.stale_files(tmp_path) == []


def test_an_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert json_schema.main(["--chek"]) == 1
    assert "usage" in capsys.readouterr().out


def test_each_kind_has_one_and_all_have_one_together(validators: Validators) -> None:
    assert list(validators) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_they_are_schemas(name: str, schemas: Mapping[str, Any]) -> None:
    assert schemas[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schemas[name])


@pytest.mark.parametrize("kind", KINDS)
def test_they_accept_every_field(kind: str, validators: Validators) -> None:
    validators[of(kind)].validate(document(kind))
    validators[UNION].validate(document(kind))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: "-".join(path.parts[-2:]))
def test_they_accept_every_example(file: Path, validators: Validators) -> None:
    raws, problems = read_documents(file.read_bytes(), file.name)
    assert problems == []
    for raw in raws:
        if isinstance(raw.value, dict) and "apiVersion" in raw.value:  # captured hardware is no document
            validators[UNION].validate(raw.value)


def test_the_union_refuses_what_is_no_document(validators: Validators) -> None:
    no_documents: tuple[Any, ...] = (
        {},
        [],
        "x",
        {"apiVersion": "bai/v1"},
        {"apiVersion": "bai/v1", "kind": "Sesion"},
        {"kind": "Domain"},
    )
    for value in no_documents:
        assert not validators[UNION].is_valid(value)


WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    3,
    0.5,
    "",
    "x y",
    "../a",
    "5",
    "64G",
    [],
    [1],
    {},
    {"a b": 1},
    "a" * 300,
)


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where something could stand instead: every place of a document with every wrong value."""
    for wrong in WRONG:
        yield path, wrong
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from mutations(inner, (*path, key))
        yield (*path, "unknownField"), 1
        yield (*path, "Not A Key"), "x"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from mutations(inner, (*path, index))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with it there; what does not change is shared."""
    changed = copy.copy(value)
    first, *rest = path
    changed[first] = put(value[first], tuple(rest), new) if rest else new
    return changed


def looser(path: tuple[Any, ...], issues: str) -> bool:
    """What only the models check: bounds of amounts that are written as texts, and which time zones there
    are."""
    amount = {"cpu", "memory", "shm", "scratch", "quota", "quantum", "size"}
    bounds = "out of range" in issues and bool(amount & set(path))
    return bounds or "is no time zone" in issues


@pytest.mark.parametrize("kind", KINDS)
def test_they_agree_with_the_models(kind: str, validators: Validators) -> None:
    """Each document of the corpus (every place × every wrong value) is accepted by both or by none."""
    apart, schema = [], validators[of(kind)]
    for original in originals(kind):
        for path, new in mutations(original):
            if not path:
                continue
            changed = put(original, path, new)
            resource, issues = parse_resource(changed)
            said = "; ".join(issue.message for issue in issues)
            if schema.is_valid(changed) != (resource is not None) and not looser(path, said):
                apart.append((path, new, said))
    assert apart == []


def originals(kind: str) -> Iterator[dict[str, Any]]:
    """Documents of a kind with every field; a profile's sections one by one, for speed."""
    original = document(kind)
    if kind == "NodePool":  # Node has looked into it
        original = original | {"spec": original["spec"] | {"hardware": {"numaNodes": [{"id": 0}]}}}
    if kind == "StorageHost":
        for place in PLACES:
            yield original | {"spec": place}
    if kind != "NodeProfile":
        yield original
        return
    for section, value in [*PROFILE.items(), *RHEL.items()]:
        yield original | {"spec": {"os": "debian-12", section: value}}


def test_an_editor_sees_what_a_field_is_for() -> None:
    properties = json_schema.schema_of("Session")["$defs"]["SessionSpec"]["properties"]
    assert "queue" not in properties
    assert "resourceGroup" in properties
    described = [name for name, field in properties.items() if field.get("description")]
    assert {"type", "resourceGroup", "command", "dependsOn", "timeout"} <= set(described)
