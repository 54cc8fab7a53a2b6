"""What fields are for, read from the source."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pydantic import Field

from schemas.hardware.model import Gpu
from schemas.values.envelope import Model, NodeMetadata, ProjectMetadata
from schemas.values.field_docs import field_description


class Told(Model):
    """A model of this module."""

    one: int = 1
    """First,
    in two lines."""
    two: int = 2
    three: int = Field(default=3, description="As given.")
    """Not this."""


class Retold(Told):
    """It says one field anew."""

    two: int = 22
    """Second."""
    three: int = 33


def test_the_text_below_a_field_is_its_description() -> None:
    assert [field_description(Told, name) for name in Told.model_fields] == [
        "First,\nin two lines.", None, "As given."
    ]  # fmt: skip


def test_a_field_that_is_declared_anew_says_what_the_last_declaration_says() -> None:
    assert [field_description(Retold, name) for name in Retold.model_fields] == [
        "First,\nin two lines.", "Second.", None
    ]  # fmt: skip
    assert field_description(NodeMetadata, "name") is None


def test_inherited_and_plain_models_are_read_too() -> None:
    assert field_description(ProjectMetadata, "labels") == "Short values to select by."
    assert field_description(Gpu, "memory") == "Bytes."


def test_threads_that_need_a_model_at_once_all_get_it() -> None:
    class Inner(Model):
        value: int

    class Outer(Model):
        inner: Inner

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda at: Outer.model_validate({"inner": {"value": at}}), range(64)))
    assert [one.inner.value for one in made] == list(range(64))
