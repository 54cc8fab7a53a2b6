"""Names are resolved leniently, never wrongly."""

from __future__ import annotations

import pytest

from bai.queries.names.resource_names import resolve_name, split_kernel
from schemas.problems.errors.command import AmbiguousName, NoSuchResource

KNOWN = (
    "Cluster/lab",
    "Node/gpu-001",
    "Session/nlp/notebook",
    "Session/vision/llama-sft",
    "Session/vision/notebook",
    "Session/vision/sub1",
)


@pytest.mark.parametrize(
    "name",
    [
        "llama-sft",
        "vision/llama-sft",
        "Session/vision/llama-sft",
        "session/vision/llama-sft",
        "sessions/llama-sft",
    ],
)
def test_every_form_of_a_name(name: str) -> None:
    assert resolve_name(name, KNOWN) == "Session/vision/llama-sft"


def test_kind_narrows() -> None:
    assert resolve_name("lab", KNOWN, "Cluster") == "Cluster/lab"
    with pytest.raises(NoSuchResource, match="no session named lab"):
        resolve_name("lab", KNOWN, "Session")


def test_a_typo_gets_a_suggestion() -> None:
    with pytest.raises(NoSuchResource) as error:
        resolve_name("lama-sft", KNOWN)
    assert error.value.hint == "did you mean Session/vision/llama-sft?"


def test_nothing_close_lists_what_there_is() -> None:
    with pytest.raises(NoSuchResource) as error:
        resolve_name("zzz", ["Node/a"], "Node")
    assert error.value.hint == "there is Node/a"


def test_a_kind_of_several_words_is_said_as_such() -> None:
    with pytest.raises(NoSuchResource, match="no resource group named x"):
        resolve_name("x", [], "ResourceGroup")


def test_an_ambiguous_name_names_the_candidates() -> None:
    with pytest.raises(AmbiguousName, match="Session/nlp/notebook, Session/vision/notebook"):
        resolve_name("notebook", KNOWN)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-sft", ("Session/vision/llama-sft", "main1")),
        ("llama-sft/sub2", ("Session/vision/llama-sft", "sub2")),
        ("vision/llama-sft/main1", ("Session/vision/llama-sft", "main1")),
        ("Session/vision/llama-sft/sub1", ("Session/vision/llama-sft", "sub1")),
        ("vision/sub1", ("Session/vision/sub1", "main1")),
    ],
)
def test_a_kernel_may_follow_the_session(name: str, expected: tuple[str, str]) -> None:
    assert split_kernel(name, KNOWN) == expected


def test_a_wrong_session_is_what_is_complained_about() -> None:
    with pytest.raises(NoSuchResource, match="named lama-sft/main1"):
        split_kernel("lama-sft/main1", KNOWN)
