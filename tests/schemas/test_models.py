"""The models of every kind: every field accepted, one normal form, nothing coerced."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.kinds.cluster import Cluster
from schemas.kinds.kind_registry import KINDS
from schemas.kinds.quota import Quota
from schemas.kinds.session import Session
from schemas.kinds.storage import Volume
from schemas.loading.documents import parse_resource
from schemas.values.canonical import canonical_document, digest
from schemas.values.envelope import Resource
from tests.schemas.examples import IN_PROJECT, SPECS, document

STEADY = settings(deadline=None, derandomize=True, database=None)


def accepted(value: dict[str, Any]) -> Resource:
    resource, issues = parse_resource(value)
    assert issues == []
    assert resource is not None
    return resource


def refused(value: dict[str, Any]) -> str:
    resource, issues = parse_resource(value)
    assert resource is None
    return " | ".join(f"{issue.at}: {issue.message} {issue.hint}" for issue in issues)


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_uses_every_field(kind: str) -> None:
    fields = {field.alias for field in KINDS[kind].model_fields["spec"].annotation.model_fields.values()}  # type: ignore[union-attr]
    left_out = {"hardwareFrom", "docker", "kubernetes", "openstack", "backendai", "fake", "options"}
    left_out |= {"directory", "environment", "sops"} if kind == "SecretStore" else set()
    left_out |= {"nfs", "pvc"} if kind == "StorageHost" else set()
    assert fields - left_out == SPECS[kind].keys() - left_out


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_read_and_written_back(kind: str) -> None:
    resource = accepted(document(kind))
    assert accepted(canonical_document(resource)) == resource
    assert canonical_document(accepted(canonical_document(resource))) == canonical_document(resource)
    json.dumps(canonical_document(resource), allow_nan=False)


@pytest.mark.parametrize("kind", KINDS)
def test_identity(kind: str) -> None:
    expected = f"{kind}/vision/x-1" if kind in IN_PROJECT else f"{kind}/x-1"
    resource = accepted(document(kind))
    assert resource.identity == expected
    assert resource.protected


def test_equal_meaning_has_an_equal_digest() -> None:
    one = session({"resources": {"memory": "1GiB", "cpu": "1.5"}, "type": "interactive", "timeout": "90m"})
    two = session({"timeout": "1h30m", "resources": {"cpu": 1.5, "memory": "1024MiB"}})
    other = session({"timeout": "1h31m", "resources": {"cpu": 1.5, "memory": "1024MiB"}})
    assert (
        digest(canonical_document(one))
        == digest(canonical_document(two))
        != digest(canonical_document(other))
    )


def test_a_digest_is_stable() -> None:
    assert digest(canonical_document(session({"command": ["a"]}))) == "0bcdd3552b6168d5"


def session(spec: dict[str, Any]) -> Session:
    made = accepted({**document("Session"), "metadata": {"name": "s", "project": "p"}, "spec": spec})
    assert isinstance(made, Session)
    return made


def test_containers_take_what_their_role_says() -> None:
    made = session(SPECS["Session"])
    names = [container.name for container in made.spec.containers]
    assert names == ["main1", "sub1", "sub2", "sub3"]
    assert made.spec.size == 4
    main, sub = made.spec.containers[:2]
    assert main.resources.slots == {"cpu": 16_000, "mem": 128 << 30, "cuda.device": 2, "rocm.device": 0}
    assert sub.resources.slots == {"cpu": 500, "cuda.shares": 500}
    assert (main.command, sub.command) == (("python", "train.py"), ("a",))
    assert (main.env, sub.env) == ({"LR": "0.0003"}, {"LR": "0.0003", "A": "b"})


def test_main_comes_first() -> None:
    made = session({"cluster": {"roles": {"worker": 2, "main": 1}}})
    assert [container.name for container in made.spec.containers] == ["main1", "worker1", "worker2"]


def test_a_volume_has_a_folder() -> None:
    bare = {**document("Volume"), "spec": {}}
    assert isinstance(volume := accepted(bare), Volume)
    assert volume.path == "vision/x-1"
    assert isinstance(named := accepted(document("Volume")), Volume)
    assert named.path == "a/b"


def test_a_quota_names_one_subject() -> None:
    assert isinstance(quota := accepted(document("Quota")), Quota)
    assert quota.spec.subject.kind_and_name == ("project", "vision")


@pytest.mark.parametrize("kind", KINDS)
def test_models_never_change(kind: str) -> None:
    resource = accepted(document(kind))
    with pytest.raises(ValueError, match="frozen"):
        resource.metadata.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": "3"}, "without quotes"),
        ({"priority": True}, "whole number"),
        ({"priority": 3.0}, "whole number"),
        ({"preemptible": 1}, "true or false"),
        ({"command": "a b"}, "[a, b]"),
        ({"env": {"A": 1}}, "not a text"),
        ({"resource_group": "a"}, "resourceGroup"),
        ({"startsAt": 5}, "time zone"),
        ({"resources": {"accelerators": {}}}, "not a slot"),
        ({"resources": {"cuda.device": True}}, "whole number of devices"),
        ({"cluster": {"roles": {"main1": 1}}}, "a role"),
        ({"env": {"A": "\0"}}, "NUL"),
    ],
)
def test_nothing_is_coerced(spec: dict[str, Any], said: str) -> None:
    assert said in refused({**document("Session"), "spec": spec})


def test_snake_case_is_not_a_second_spelling() -> None:
    def walk(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            if field.alias != name:
                assert (
                    "unknown field" in refused({**document("Session"), "spec": {name: {}}})
                    or model is not Session
                )

    walk(Session.model_fields["spec"].annotation)  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@STEADY
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_any_value_anywhere_is_read_or_refused_with_a_place(kind: str, data: st.DataObject) -> None:
    value = json.loads(json.dumps(document(kind)))
    here = value
    while isinstance(here, dict) and here:
        key = data.draw(st.sampled_from(sorted(here)))
        if not isinstance(here[key], dict) or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
    resource, issues = parse_resource(value)
    assert (resource is None) == bool(issues)
    if resource is not None:
        assert accepted(canonical_document(resource)) == resource


def test_a_provider_gets_its_own_options() -> None:
    def options(spec: dict[str, Any]) -> dict[str, Any]:
        cluster = accepted({**document("Cluster"), "spec": spec})
        assert isinstance(cluster, Cluster)
        return dict(cluster.spec.provider_options)

    assert options({"provider": "process", "process": {"root": "/x"}}) == {"root": "/x"}
    assert options({"provider": "theirs", "options": {"a": 1}}) == {"a": 1}
    assert options({"provider": "docker"}) == {}
