"""Identities taken apart and put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.values.resource_ref import ResourceRef, identity_of, ref_of

NAMES = st.text(st.characters(exclude_characters="/"), min_size=1)


@pytest.mark.parametrize(
    ("text", "parts", "qualified"),
    [
        ("Node/gpu-1", ("Node", "", "gpu-1"), "gpu-1"),
        ("Session/vision/train", ("Session", "vision", "train"), "vision/train"),
        (
            "Kernel/train-main1-4f1c02aa-g1",
            ("Kernel", "", "train-main1-4f1c02aa-g1"),
            "train-main1-4f1c02aa-g1",
        ),
    ],
)
def test_an_identity_has_a_kind_a_project_and_a_name(
    text: str, parts: tuple[str, str, str], qualified: str
) -> None:
    assert ref_of(text) == parts
    assert ref_of(text).qualified_name == qualified
    assert str(ref_of(text)) == text


@given(NAMES, NAMES, st.none() | NAMES)
def test_what_is_put_together_is_taken_apart_again(kind: str, name: str, project: str | None) -> None:
    assert ref_of(identity_of(kind, name, project)) == ResourceRef(kind, project or "", name)
    assert str(ResourceRef(kind, project or "", name)) == identity_of(kind, name, project)


@given(st.text())
def test_any_text_can_be_taken_apart(text: str) -> None:
    assert ref_of(text).kind == text.partition("/")[0]
