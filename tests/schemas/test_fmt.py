"""`bai fmt`: one style, comments kept, the meaning untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from schemas.files.yaml_reader import read_documents
from schemas.kinds.kind_registry import KINDS
from schemas.loading.fmt import format_text
from schemas.problems.errors.repository import InvalidRepository
from tests.schemas.examples import document

CASES = Path(__file__).parents[1] / "cases" / "schemas"
UNTIDY = """\
# yaml-language-server: $schema=https://example.org/bai.json
spec:
    command: [a,
      b]
    # about the type
    type: batch   # inline
    env:
        B: "x"
        # about what follows
        A: |
            echo
              two


            three
        # end of env
    mounts:
    -   volume: x
        # the path
        path: /data
    # second
    - path: /b

      volume: y


    resources:
      cuda.device: 2
      memory: 1GiB
      cpu: 1
metadata:
  project: p
  name: a
kind: Session
apiVersion: bai/v1
---
# only a comment
---
kind: Domain
apiVersion: bai/v1
metadata: {name: x}
# the end
"""
TIDY = """\
# yaml-language-server: $schema=https://example.org/bai.json
apiVersion: bai/v1
kind: Session
metadata:
  name: a
  project: p
spec:
  # about the type
  type: batch   # inline

  resources:
    cpu: 1
    memory: 1GiB
    cuda.device: 2
  command: [a,
    b]
  env:
    B: "x"
    # about what follows
    A: |
        echo
          two


        three
    # end of env
  mounts:
    - volume: x
      # the path
      path: /data
    # second
    - volume: y
      path: /b
---
# only a comment
---
apiVersion: bai/v1
kind: Domain
metadata: {name: x}
# the end
"""


def values(data: bytes) -> list[object]:
    """What the documents of a text say."""
    return [raw.value for raw in read_documents(data, "")[0]]


def test_the_style() -> None:
    assert format_text(UNTIDY.encode()) == TIDY


def test_formatting_again_changes_nothing() -> None:
    assert format_text(TIDY.encode()) == TIDY


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flow", [False, None])
def test_every_field_keeps_its_value(kind: str, flow: bool | None) -> None:
    original = yaml.safe_dump(document(kind), sort_keys=True, indent=4, default_flow_style=flow).encode()
    text = format_text(original)
    assert values(text.encode()) == [document(kind)]
    assert text.split("\n")[0] == "apiVersion: bai/v1"
    assert text.split("\n")[1] == f"kind: {kind}"
    assert format_text(text.encode()) == text


@pytest.mark.parametrize(
    "text",
    [
        "%YAML 1.2\n---\nkind: a\n",
        "kind: a\n...\n---\nkind: b\n",
        "--- {kind: a}\n",
        "--- # comment\nkind: a\n",
        "? kind\n: a\n",
        "",
        "\n",
        "a: |2\n    x\n",
        "- a\n- b\n",
        "just text\n",
        "a: &x {b: 1}\nc: *x\n",
        "a: |+\n  x\n\n\n",
        "a: >-\n  x\n\n  y\nb: 'it''s\n\n\n  long'\n",
        "a:\n- - 1\n  - 2\n-\n  b: c\n-\n",
        "#\ta\na: b\n\n\n# c\n",
        "b: 'x\u2028 y'\na: 'x\x85 y'\n",
        "b: 1\ra: 2\r",
        "kind: Session\nspec:\n  env: {}\n    # deep\n# shallow\n",
    ],
)
def test_unusual_texts_mean_the_same_afterwards(text: str) -> None:
    made = format_text(text.encode())
    assert [raw.value for raw in read_documents(made.encode(), "")[0]] == [
        raw.value for raw in read_documents(text.encode(), "")[0]
    ]
    assert format_text(made.encode()) == made
    for line in text.split("\n"):
        assert line.strip().lstrip("- ") in made


def test_line_ends_and_the_byte_order_mark_are_normalised() -> None:
    assert format_text(b"\xef\xbb\xbfkind: a\r\nspec: b  \r\n") == "kind: a\nspec: b\n"


def test_the_order_of_free_mappings_is_the_authors() -> None:
    text = (
        "kind: Session\nspec:\n  env:\n    Z: a\n    A: b\n"
        "  cluster:\n    roles:\n      sub: 1\n      main: 1\n"
    )
    made = format_text(text.encode())
    assert made.index("cluster") < made.index("env")
    assert made.index("sub: 1") < made.index("main: 1")
    assert made.index("Z: a") < made.index("A: b")


def test_what_is_not_yaml_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidRepository) as caught:
        format_text(b"kind: [\n", "x.yaml")
    assert str(caught.value.problems[0].place) == "x.yaml:2:1"


FILES = sorted(CASES.glob("*/repository/**/*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_cases_keep_their_meaning(file: Path) -> None:
    if not file.is_file():
        return
    data = file.read_bytes()
    try:
        text = format_text(data, file.name)
    except InvalidRepository:
        return
    assert values(text.encode()) == values(data)
    assert format_text(text.encode()) == text


def test_the_last_field_may_move_up_without_leaving_a_gap() -> None:
    head = b"apiVersion: bai/v1\nkind: Session\nmetadata: {name: a, project: p}\nspec:\n"
    moved = format_text(head + b"  priority: 1\n  command: [a]\n")
    assert moved == (head + b"  command: [a]\n  priority: 1\n").decode()
