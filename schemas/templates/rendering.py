"""Templates filled in, before documents become sessions. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError
from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from schemas.kinds.session_template import MOST_SESSIONS, Parameter, SessionTemplateSpec, SweepSpec, Value
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value
from schemas.templates import template_language

CODE = "BAI-V055"
SESSION_VARIABLES = ("name", "project")
"""What every template knows beside its parameters."""
RENDERING_ERRORS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError)
"""What filling in raises."""
_SINGLE_EXPRESSION = re.compile(r"\s*\{\{(?P<expression>((?!\}\}|\{\{).)*)\}\}\s*\Z", re.DOTALL)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def template_issues(spec: SessionTemplateSpec) -> Iterator[Issue]:
    """What is wrong with a template by itself."""
    for name, parameter in spec.parameters.items():
        at: Loc = ("spec", "parameters", name)
        if name in SESSION_VARIABLES:
            yield Issue(at, f"'{name}' is the session's own", "choose another name", CODE, key=True)
        if parameter.pattern is not None:
            try:
                _compile_pattern(parameter.pattern)
            except SchemaError as error:
                why = str(error).partition("SchemaError: ")[2].rpartition("error: ")[2].strip()
                hint = "Rust's syntax counts: no look-around, no references to groups"
                yield Issue((*at, "pattern"), f"not a regular expression: {why}", hint, CODE)
                continue
        if parameter.default is not None:
            yield from _check_value(parameter, parameter.default, (*at, "default"), name)
        yield from _check_choices(parameter, at)
    known = {*SESSION_VARIABLES, *spec.parameters}
    for place, text in _template_texts(spec.session, ("spec", "session")):
        try:
            used = template_language.undeclared_variables(text)
        except TemplateError as error:
            yield Issue(place, f"not a template: {error.message}", "", CODE)
            continue
        for name in sorted(used - known):
            yield Issue(place, f"'{name}' is no parameter", did_you_mean(name, known), CODE)


def fill_template(
    spec: SessionTemplateSpec, given: Mapping[str, Value], *, name: str, project: str, at: Loc
) -> tuple[dict[str, Any], list[Issue]]:
    """The session's `spec`, and what is wrong with the values given at `at`."""
    issues = list(_check_values(spec, given, at))
    if issues:
        return {}, issues
    defaults = {key: one.default for key, one in spec.parameters.items() if one.default is not None}
    values = {**defaults, **given, "name": name, "project": project}
    try:
        found = _render_value(spec.session, values)
    except RENDERING_ERRORS as error:
        return {}, [Issue(at, f"the template cannot be filled in: {error}", "", CODE)]
    return dict(found), []


def merge_specs(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are joined key by key, everything else is replaced by what is `above`."""
    found = dict(below)
    for key, value in above.items():
        mine = found.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        found[key] = merge_specs(mine, value) if both else value  # type: ignore[arg-type]
    return found


def text_template_issues(text: str, known: Collection[str], at: Loc) -> Iterator[Issue]:
    """What is wrong with one text, of which only `known` is defined."""
    try:
        used = template_language.undeclared_variables(text, loops=True)
    except TemplateError as error:
        yield Issue(at, f"not a template: {error.message}", "", CODE)
        return
    for name in sorted(used - set(known)):
        yield Issue(at, f"'{name}' is not known here", did_you_mean(name, known), CODE)


def render_text(text: str, values: Mapping[str, Any]) -> str:
    """One text filled in. Raises ValueError where that cannot be done."""
    try:
        return template_language.render(text, values, loops=True)
    except RENDERING_ERRORS as error:
        raise ValueError(str(error) or type(error).__name__) from None


def sweep_combinations(spec: SweepSpec) -> tuple[list[dict[str, Value]], list[Issue]]:
    """Every combination of the sweep's values that is not left out."""
    size = 1
    for values in spec.over.values():
        size *= len(values)
    if size > 10 * MOST_SESSIONS:
        return [], [Issue(("spec", "over"), f"{size} combinations are too many", "", CODE)]
    all_ = (dict(zip(spec.over, values, strict=True)) for values in itertools.product(*spec.over.values()))
    found = [one for one in all_ if not any(each.items() <= one.items() for each in spec.exclude)]
    if len(found) > MOST_SESSIONS:
        message = f"{len(found)} sessions; a sweep stands for at most {MOST_SESSIONS}"
        return [], [Issue(("spec", "over"), message, "make two sweeps of it", CODE)]
    if not found:
        return [], [Issue(("spec", "exclude"), "nothing is left", "", CODE)]
    return found, []


def _check_values(spec: SessionTemplateSpec, given: Mapping[str, Value], at: Loc) -> Iterator[Issue]:
    for name, value in given.items():
        if name not in spec.parameters:
            message = f"the template has no parameter '{name}'"
            yield Issue((*at, name), message, did_you_mean(name, spec.parameters), CODE, key=True)
        else:
            yield from _check_value(spec.parameters[name], value, (*at, name), name)
    missing = [n for n, one in spec.parameters.items() if one.default is None and n not in given]
    if missing:
        yield Issue(at, f"the template needs {', '.join(missing)}", "", CODE)


def _check_value(parameter: Parameter, value: Value, at: Loc, name: str) -> Iterator[Issue]:
    types = _TYPES[parameter.type]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        yield Issue(
            at, f"{name} is {_TYPE_NAMES[parameter.type]}, not {format_value(value)}", "", CODE, value
        )
    elif parameter.choices and value not in parameter.choices:
        choices = ", ".join(map(str, parameter.choices))
        yield Issue(at, f"{name} is one of {choices}, not {format_value(value)}", "", CODE, value)
    elif isinstance(value, str):
        if parameter.pattern is not None and not _matches(parameter.pattern, value):
            yield Issue(at, f"{format_value(value)} does not match {parameter.pattern}", "", CODE, value)
    elif parameter.minimum is not None and value < parameter.minimum:
        yield Issue(at, f"{name} is at least {parameter.minimum:g}", "", CODE, value)
    elif parameter.maximum is not None and value > parameter.maximum:
        yield Issue(at, f"{name} is at most {parameter.maximum:g}", "", CODE, value)


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> SchemaValidator:
    """For texts that match as a whole. Anybody who commits may write one: Rust's engine takes time in
    proportion to the text, whatever the pattern is. Raises SchemaError."""
    return SchemaValidator(core_schema.str_schema(pattern=rf"\A(?:{pattern})\z", regex_engine="rust-regex"))


def _matches(pattern: str, value: str) -> bool:
    try:
        _compile_pattern(pattern).validate_python(value)
    except ValidationError:
        return False
    return True


_TYPE_NAMES = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def _check_choices(parameter: Parameter, at: Loc) -> Iterator[Issue]:
    for index, value in enumerate(parameter.choices):
        single = parameter.model_copy(update={"choices": ()})
        yield from _check_value(single, value, (*at, "choices", index), "a choice")


def _render_value(value: Any, values: Mapping[str, Any], *, words: bool = False) -> Any:
    """`words`: below here, values are texts, also where an expression gives a number."""
    if isinstance(value, str):
        found = _render_text_value(value, values)
        return _as_text(found) if words else found
    if isinstance(value, Mapping):
        return {
            _render_text_value(key, values): _render_value(each, values, words=words or key in _TEXT_FIELDS)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_render_value(each, values, words=words) for each in value]
    return value


_TEXT_FIELDS = frozenset({"command", "env"})
"""Parts of a session that hold nothing but texts."""


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _render_text_value(text: str, values: Mapping[str, Any]) -> Any:
    if "{" not in text:
        return text
    whole = _SINGLE_EXPRESSION.match(text)
    if whole:
        return template_language.evaluate(whole["expression"], values)
    return template_language.render(text, values)


def _template_texts(value: Any, at: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield (*at, key), str(key)
            yield from _template_texts(each, (*at, key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _template_texts(each, (*at, index))
