"""What the fields of models are for: the docstrings below them, read from the source when somebody asks.

Pydantic would read the source of every model while it is imported, which costs each command more time than
all of its own work.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel


def field_description(model: type[BaseModel], field: str) -> str | None:
    """What is said of a field by the class that last declares it; None where nothing is.

    Raises OSError where the source is not there.
    """
    given = model.model_fields[field].description
    if given is not None:
        return given
    for one in model.__mro__:
        if field in inspect.get_annotations(one):
            return _field_docstrings(one.__module__).get(one.__qualname__, {}).get(field)
    return None


@cache
def _field_docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """Class → field → text, of a module's classes."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _docstrings_below_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docstrings_below_fields(node: ast.ClassDef) -> dict[str, str]:
    """The text that stands right below each field of a class."""
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
