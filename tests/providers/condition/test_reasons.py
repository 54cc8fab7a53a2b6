"""Why a node is not what its profile says; and what a fingerprint tells apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.condition.fingerprint import fingerprint, roles_digest
from providers.condition.reasons import document_changes, provision_reasons
from providers.condition.values import Deviation, NodeCondition, ProvisionStamp

OLD = {"nvidiaDriver": {"version": "550.90.07", "flavour": "open"}, "os": "debian-12"}
NEW = {"nvidiaDriver": {"version": "560.35.03", "flavour": "open"}, "os": "debian-12", "gds": {}}
documents = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def why(condition: NodeCondition, *, profile: str = "h100", print_: str = "f") -> tuple[str, ...]:
    return provision_reasons(condition, profile=profile, fingerprint=print_, document=NEW)


def test_reasons_in_words() -> None:
    sealed = ProvisionStamp("h100", "f", NEW)
    assert why(NodeCondition("n", sealed)) == ()
    assert why(NodeCondition("n")) == ("never provisioned",)
    assert why(NodeCondition("n", stamp_problem="it is no JSON")) == ("never provisioned: it is no JSON",)
    assert why(NodeCondition("n", ProvisionStamp("h100", "e", NEW))) == ("the roles of profile h100 changed",)
    assert why(NodeCondition("n", ProvisionStamp("h100", "e", OLD))) == (
        "profile h100 changed: gds left out → {}, nvidiaDriver.version 550.90.07 → 560.35.03",
    )
    assert why(NodeCondition("n", ProvisionStamp("a100", "e", NEW))) == ("profile a100 → h100",)
    assert why(NodeCondition("n", ProvisionStamp("h100", "f", NEW, unfinished=True)))
    drifted = NodeCondition("n", sealed, (Deviation("package x", "2", "1"),))
    assert why(drifted) == ("drift: package x is 1, sealed 2",)


@given(st.dictionaries(st.text(max_size=3), documents, max_size=4))
def test_nothing_changed_is_nothing_to_say(document: dict[str, object]) -> None:
    assert list(document_changes(document, document)) == []


@given(
    st.dictionaries(st.text(max_size=3), documents, max_size=4),
    st.dictionaries(st.text(max_size=3), documents, max_size=4),
)
def test_what_differs_is_said_shortly(old: dict[str, object], new: dict[str, object]) -> None:
    said = list(document_changes(old, new))
    assert bool(said) or old == new
    assert all(len(each) < 300 for each in said)


def test_the_fingerprint_tells_apart_what_matters() -> None:
    base: dict[str, object] = {"a_x": 1, "b_y": [1, 2]}
    one = fingerprint(("a", "b"), base, {"a_t": "env/T"}, "debian-12", "d")
    assert one == fingerprint(("b", "a"), dict(reversed(base.items())), {"a_t": "env/T"}, "debian-12", "d")
    others = {
        fingerprint(("a",), base, {"a_t": "env/T"}, "debian-12", "d"),
        fingerprint(("a", "b"), {**base, "a_x": 2}, {"a_t": "env/T"}, "debian-12", "d"),
        fingerprint(("a", "b"), base, {"a_t": "env/U"}, "debian-12", "d"),
        fingerprint(("a", "b"), base, {"a_t": "env/T"}, "rhel-9", "d"),
        fingerprint(("a", "b"), base, {"a_t": "env/T"}, "debian-12", "e"),
    }
    assert len(others | {one}) == 6


def changed(tmp_path: Path, name: str, before: str) -> bool:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("changed\n")
    roles_digest.cache_clear()
    return roles_digest(tmp_path, frozenset({"base"})) != before


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("site.yml", True),
        ("base/tasks/main.yml", True),
        ("base/templates/deep/x.j2", True),
        ("packages/tasks/main.yml", True),  # serves the others: no section of a profile
        ("docker/tasks/main.yml", False),  # a section that is not set
        ("base/README.md", False),
        ("base/molecule/default/converge.yml", False),
    ],
)
def test_the_digest_of_roles(tmp_path: Path, name: str, counts: bool) -> None:
    (tmp_path / "base" / "tasks").mkdir(parents=True)
    (tmp_path / "base" / "tasks" / "main.yml").write_text("---\n")
    (tmp_path / "site.yml").write_text("---\n")
    roles_digest.cache_clear()
    before = roles_digest(tmp_path, frozenset({"base"}))
    assert changed(tmp_path, name, before) is counts
