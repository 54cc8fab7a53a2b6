"""Small changes of a YAML text: the change, and not a byte more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.files.yaml_edit import FieldEdit, set_field, without_documents
from schemas.files.yaml_layout import UnsupportedLayout
from schemas.files.yaml_reader import read_documents
from schemas.kinds.session import Session
from schemas.problems.model_errors import fields_at

ORDER = fields_at(Session, ("spec",))
HOLD, PRIORITY = (FieldEdit("spec", key, ORDER) for key in ("hold", "priority"))
TEXT = """\
# who reads this: é
apiVersion: bai/v1
kind: Session
metadata: {name: one, project: demo}   # odd   spaces
spec:
  # about the type
  type: batch

  resources: {cpu: 1,
    memory: 1GiB}
  command: ["a",
    "b"]  # two
  env:
    A: |
      echo
        two

    # the last of env

  # about the start
  startsAt: 2030-01-01T00:00:00Z
"""
SHAPES = {
    "as it is": TEXT,
    "with CRLF": TEXT.replace("\n", "\r\n"),
    "with a mark at its beginning": "\ufeff" + TEXT,
    "flow": "kind: Session\nspec: {type: batch, command: [a, b]}  # here\n",
    "one line": "{kind: Session, spec: {type: batch}}",
    "comment first": "kind: Session\nspec:\n\n  # about startsAt\n  startsAt: 2030-01-01T00:00:00Z\n",
    "behind others": f"a: 1\n---\n# x\n---\n{TEXT}---\nb: 2\n",
}


def number_of(text: str) -> int:
    raws = read_documents(text.encode(), "")[0]
    return next(at for at, raw in enumerate(raws) if isinstance(raw.value, dict) and "spec" in raw.value)


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("edit", [HOLD, PRIORITY], ids=["hold", "priority"])
def test_a_field_comes_and_goes_without_a_trace(text: str, edit: FieldEdit) -> None:
    number = number_of(text)
    made = set_field(text.encode(), edit, {number: 7})
    assert read_documents(made, "")[0][number].value["spec"][edit.key] == 7
    assert set_field(made, edit, {number: None}) == text.encode()
    assert set_field(made, edit, {number: 12}) == made.replace(b": 7", b": 12")


def test_a_new_field_stands_where_the_reference_has_it() -> None:
    made = set_field(TEXT.encode(), PRIORITY, {0: 7}).decode().splitlines()
    at = made.index("  priority: 7")
    assert made[at - 1] == "        two"
    assert made.index("  # about the start") > at


def test_a_comment_beside_a_field_stays() -> None:
    text = b"kind: Session\nspec:\n  type: batch\n  hold: true  # until Monday\n"
    assert set_field(text, HOLD, {0: None}) == text.replace(b"true", b"false")


def test_the_only_field_is_not_taken_out() -> None:
    text = b"kind: Session\nspec:\n  hold: true\n"
    assert set_field(text, HOLD, {0: None}) == text.replace(b"true", b"false")


@pytest.mark.parametrize(
    "text",
    [
        "kind: Session\nspec: &x {type: batch}\nother: *x\n",
        "kind: Session\nx: &x {type: batch}\nspec: *x\n",
        "kind: Session\nspec:\n",
        "kind: Session\nspec: [a]\n",
        "kind: Session\nspec: {hold: &x true, y: *x}\n",
        "%YAML 1.1\n---\nkind: Session\nspec: {type: batch}\n",
        "kind: Session\nspec: {type: batch}\n...\n",
        "kind: Session\nspec: {type: batch}\rother: 1\n",
        "kind: Session\nspec: {type: 'a\u2028b'}\n",
        "kind: Session\nspec: {type: a, type: b}\n",
        "kind: Session\nspec: {type: !!str a}\n",
    ],
)
def test_what_is_unusual_is_left_alone(text: str) -> None:
    with pytest.raises(UnsupportedLayout):
        set_field(text.encode(), HOLD, {0: True})


def test_exactly_the_documents_go() -> None:
    first, second, third = "# one\na: 1 \n", "---  # two\n# about b\nb: {x:   2}\n", "---\nc: 3"
    text = (first + second + third).encode()
    assert without_documents(text, {1}) == (first + third).encode()
    assert without_documents(text, {0}) == (second + third).encode()
    assert without_documents(text, {2}) == (first + second).encode()
    assert without_documents(text, {0, 2}) == second.encode()
    assert without_documents(text, {0, 1, 2}) is None


def test_nothing_is_left_beside_comments() -> None:
    assert without_documents(b"a: 1\n---\n# only words\n", {0}) is None


LINES = st.sampled_from(
    ["a: 1", "b: [1, 2]  # c", "s: |\n  x\n\n  y", "t: >-\n  # no comment\n  z", "# words", "", "u: 'it''s'"]
)
DOCUMENTS = st.lists(
    st.lists(LINES, max_size=4, unique_by=lambda line: line[:1] or line).map("\n".join),
    min_size=1,
    max_size=5,
)


@given(DOCUMENTS, st.data())
def test_whatever_goes_the_rest_means_what_it_meant(parts: list[str], data: st.DataObject) -> None:
    text = "\n---\n".join(parts) + "\n"
    raws = read_documents(text.encode(), "")[0]
    gone = data.draw(st.sets(st.sampled_from(range(len(raws))), min_size=1) if raws else st.just(set[int]()))
    try:
        made = without_documents(text.encode(), gone)
    except UnsupportedLayout:
        return
    kept = [raw.value for at, raw in enumerate(raws) if at not in gone]
    if made is None:
        assert not any(kept)
    else:
        assert [raw.value for raw in read_documents(made, "")[0]] == kept
        assert all(line in text.split("\n") for line in made.decode().split("\n"))
