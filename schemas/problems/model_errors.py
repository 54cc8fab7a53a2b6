"""Pydantic's error records in plain words, with what would be right."""

from __future__ import annotations

import json
import re
import shlex
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.problems.issues import KEY_STEP, Issue, Loc, attached_issues
from schemas.problems.positions import Positions, path_text
from schemas.problems.problem import Problem
from schemas.problems.text import did_you_mean, format_value

_LONGEST_LINE = 200
_FOR_A_SHELL = re.compile(r"[|&;<>$`\n]")
_PLAIN = re.compile(r"(\./|--?)?[A-Za-z_/][A-Za-z0-9_./=@%+-]*")
"""Words that YAML reads as texts without quotes."""
_NO_TEXTS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_TYPE_NAMES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "frozen_set_type": "a list",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "none_required": "null",
}


MOST_ISSUES = 1000
"""Of one document that are put into words."""


def issues_of(error: ValidationError, model: type[BaseModel]) -> list[Issue]:
    """Everything wrong with one document, each at its own place."""
    found: list[Issue] = []
    for record in error.errors(include_url=False)[:MOST_ISSUES]:
        found.extend(attached_issues(record) or [explain_error(record, model)])
    return [issue for issue in found if not _is_implied(issue, found)]


def located_problems(
    error: ValidationError, model: type[BaseModel], places: Positions
) -> tuple[Problem, ...]:
    """The same of a file with one document, by their places in it."""
    return tuple(
        sorted(
            Problem(
                places.find(0, issue.at, key=issue.key), issue.code, path_text(issue.at), issue.message,
                issue.hint,
            )
            for issue in issues_of(error, model)
        )
    )  # fmt: skip


def nested_issues(error: ValidationError) -> list[Issue]:
    """Every error of a nested validation as issues, to be raised together with others."""
    found: list[Issue] = []
    for record in error.errors(include_url=False):
        found.extend(attached_issues(record) or [explain_error(record)])
    return found


def _is_implied(issue: Issue, others: list[Issue]) -> bool:
    """A list seems too short when all of its items are wrong; the items say it better."""
    if issue.type not in {"too_short", "too_long"}:
        return False
    below = (other for other in others if len(other.at) > len(issue.at))
    return any(other.at[: len(issue.at)] == issue.at for other in below)


def explain_error(error: ErrorDetails, model: type[BaseModel] | None = None) -> Issue:
    """One of Pydantic's own errors as an issue. `model` lets an unknown field say what is known there."""
    key = error["loc"][-1:] == (KEY_STEP,)
    loc = tuple(step for step in error["loc"] if step != KEY_STEP)
    value = error.get("input")
    for types_, make in _EXPLAINERS:
        if error["type"] in types_:
            message, hint, code = make(error, value)
            break
    else:
        message, hint, code = f"{format_value(value)} is not allowed here: {error['msg']}", "", "BAI-V032"
    if error["type"] == "extra_forbidden":
        known = fields_at(model, loc[:-1]) if model else ()
        return Issue(
            loc,
            f"unknown field {format_value(str(loc[-1]))}",
            did_you_mean(str(loc[-1]), known),
            code,
            value,
            key=True,
        )
    if error["type"] == "missing":
        return Issue(loc[:-1], f"the field '{loc[-1]}' is missing", "add it", code, None)
    return Issue(loc, message, hint, code, value, key, error["type"])


def _explain_type(error: ErrorDetails, value: Any) -> tuple[str, str, str]:
    wanted = _TYPE_NAMES[error["type"]]
    return f"{format_value(value)} is not {wanted}", _type_hint(wanted, value), "BAI-V031"


def _type_hint(wanted: str, value: Any) -> str:
    if value is None:
        return "give a value or leave the field out"
    if wanted == "a list" and isinstance(value, str):
        return f"write it as a list: {_as_list(value)}"
    if wanted in {"a whole number", "true or false"} and isinstance(value, str):
        return (
            "write it without quotes"
            if value.strip().lstrip("-").isdigit() or value in {"true", "false"}
            else ""
        )
    return ""


def _as_list(text: str) -> str:
    """What was meant by one text where a list belongs, as YAML: its words as a shell takes them apart, or the
    line for a shell when only that understands it."""
    if len(text) > _LONGEST_LINE:
        return "[word, word, ...]"
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    if _FOR_A_SHELL.search(text):
        words = ["sh", "-c", text]
    return f"[{', '.join(map(_as_scalar, words))}]"


def _as_scalar(word: str) -> str:
    return word if _PLAIN.fullmatch(word) and word.lower() not in _NO_TEXTS else json.dumps(word)


def _explain_choice(error: ErrorDetails, value: Any) -> tuple[str, str, str]:
    expected = str(error.get("ctx", {}).get("expected", "")).replace(" or ", ", ")
    choices = [part.strip().strip("'") for part in expected.split(",")]
    return (
        f"{format_value(value)} is not one of {', '.join(choices)}",
        _nearest_choice(value, choices),
        "BAI-V030",
    )


def _nearest_choice(value: Any, choices: list[str]) -> str:
    hint = did_you_mean(value, choices) if isinstance(value, str) else ""
    return hint if hint.startswith("did") else ""


def _explain_bound(error: ErrorDetails, value: Any) -> tuple[str, str, str]:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    said = [f"{word} {error['ctx'][name]}" for name, word in words.items() if name in error.get("ctx", {})]
    return f"{format_value(value)} is out of range: it must be {' and '.join(said)}", "", "BAI-V032"


def _explain_length(error: ErrorDetails, value: Any) -> tuple[str, str, str]:
    context = error.get("ctx", {})
    said = (
        f"at least {context['min_length']}"
        if "min_length" in context
        else f"at most {context.get('max_length')}"
    )
    return f"{said} needed, {context.get('actual_length', 'other')} given", "", "BAI-V032"


def _validator_message(error: ErrorDetails, value: Any) -> tuple[str, str, str]:
    return error["msg"].removeprefix("Value error, "), "", "BAI-V032"


def _with_code(code: str) -> Callable[[ErrorDetails, Any], tuple[str, str, str]]:
    return lambda error, value: ("", "", code)


_EXPLAINERS: tuple[tuple[frozenset[str], Callable[[ErrorDetails, Any], tuple[str, str, str]]], ...] = (
    (frozenset(_TYPE_NAMES), _explain_type),
    (frozenset({"literal_error", "enum"}), _explain_choice),
    (frozenset({"greater_than_equal", "greater_than", "less_than_equal", "less_than"}), _explain_bound),
    (frozenset({"value_error"}), _validator_message),
    (frozenset({"too_short", "too_long", "string_too_short", "string_too_long"}), _explain_length),
    (frozenset({"extra_forbidden"}), _with_code("BAI-V020")),
    (frozenset({"missing"}), _with_code("BAI-V021")),
)


def fields_at(model: type[BaseModel], loc: Loc) -> tuple[str, ...]:
    """Names of the fields, as written in YAML, of the model that stands at a path below `model`."""
    here: Any = model
    for step in loc:
        here = _annotation_below(_unwrap_annotation(here), step)
    bare = _unwrap_annotation(here)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return tuple(field.alias or name for name, field in bare.model_fields.items())
    return ()


def _annotation_below(here: Any, step: str | int) -> Any:
    if isinstance(here, type) and issubclass(here, BaseModel):
        return next((f.annotation for n, f in here.model_fields.items() if step in (f.alias, n)), None)
    if get_origin(here) in (dict, Mapping):
        return get_args(here)[1]
    return next(iter(get_args(here)), None)


def _unwrap_annotation(annotation: Any) -> Any:
    """An annotation without `Annotated` and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next((arg for arg in get_args(annotation) if arg is not type(None)), None)
        else:
            return annotation
