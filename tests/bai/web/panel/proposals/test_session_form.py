"""A document as fields and back; and that no field is more than a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.web.panel.proposals.session_form import (
    FIELDS,
    document_text,
    fields_of,
    form_fields,
    with_fields,
)
from reconciler.proposals.edits import parse_one

FULL = {
    "project": "p", "name": "x", "template": "", "parameters": "", "type": "batch", "group": "g",
    "image": "registry.example/a:1", "command": "python train.py --lr '1 2'", "cpu": "4", "memory": "16GiB",
    "gpus": "0.5", "containers": "3", "spread": "multi-node", "priority": "20", "mounts": "v:/d:ro\nw:/e",
    "env": "A=b: c\nX=- y\nN=1", "ports": "web:8080",
}  # fmt: skip


def test_fields_become_a_document_and_it_becomes_fields() -> None:
    made = with_fields(None, FULL)
    assert fields_of(made) == FULL
    assert parse_one(document_text(made)) == made
    assert made["spec"]["env"] == {"A": "b: c", "X": "- y", "N": "1"}
    assert made["spec"]["resources"] == {"cpu": 4, "memory": "16GiB", "cuda.shares": 0.5}


def test_what_no_field_has_stays() -> None:
    spec = {
        "cluster": {"roles": {"main": 1, "sub": 1, "ps": 2}, "perRole": {"ps": {"command": ["ps"]}}},
        "mounts": [{"volume": "v", "path": "/d", "subPath": "in"}], "idle": {"after": "1h"},
        "ports": [{"name": "web", "port": 80, "publish": True}], "resources": {"cpu": 1, "shm": "1GiB"},
    }  # fmt: skip
    document: dict[str, Any] = {"metadata": {"name": "x", "project": "p"}, "spec": spec}
    made = with_fields(document, {**fields_of(document), "cpu": "2", "mounts": "v:/d\nw:/e"})
    assert made["spec"]["cluster"] == spec["cluster"] and made["spec"]["idle"] == {"after": "1h"}
    assert made["spec"]["mounts"] == [spec["mounts"][0], {"volume": "w", "path": "/e"}]  # type: ignore[index]
    assert made["spec"]["resources"] == {"cpu": 2, "shm": "1GiB"} and made["spec"]["ports"] == spec["ports"]
    assert spec["resources"] == {"cpu": 1, "shm": "1GiB"}


def test_an_emptied_field_goes() -> None:
    made = with_fields(
        with_fields(None, FULL), {name: "" for name in FIELDS if name not in ("project", "name")}
    )
    assert made["spec"] == {} and made["metadata"] == {"project": "p", "name": "x"}


@pytest.mark.parametrize(
    "value",
    ["x\nspec: {command: [evil]}", "}\n---\nkind: Node", "!!python/object:os.system", "&a *a", "x # y", '"x',
     "a: b", "- a", "{{ 7*7 }}", "null", "\u2028---", "\x00", "a=b\nc=d: e", "~", "99999999999999999999",
     "1.5.5", ".5", "0"],
)  # fmt: skip
def test_no_field_writes_beside_itself(value: str) -> None:
    """The document has what it had, and one value more at most, which is no structure of YAML's."""
    for name in FIELDS:
        made = with_fields(with_fields(None, FULL), {**FULL, name: value})
        try:
            again = parse_one(document_text(made))
        except Exception:  # What YAML cannot have at all: an error is shown, and nothing written.
            assert not value.isprintable(), name
            continue
        assert again == made, name
        others = {part: text for part, text in fields_of(again).items() if part not in (name, "containers")}
        known = {part: text for part, text in FULL.items() if part not in (name, "containers")}
        assert {part: others[part] for part in known} == known, name
        assert set(again) == {"apiVersion", "kind", "metadata", "spec"} and again["kind"] == "Session", name


@given(st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=30), max_size=6))
def test_any_fields_are_read(fields: dict[str, str]) -> None:
    made = with_fields(None, fields)
    assert with_fields(made, fields_of(made)) == made


@pytest.mark.parametrize("value", [None, 1, [], "x", {"spec": 1}, {"metadata": [], "spec": {"resources": 1}}])
def test_what_is_no_session_has_empty_fields(value: object) -> None:
    assert set(fields_of(value).values()) == {""}
    assert with_fields(value, {"name": "x"})["metadata"] == {"name": "x"}


def test_fields_are_those_of_the_schema() -> None:
    found = form_fields()
    assert found["type"].choices == ("interactive", "batch", "inference", "system")
    assert (found["priority"].least, found["priority"].most) == (0, 1000)
    assert all(each.label for each in found.values())
