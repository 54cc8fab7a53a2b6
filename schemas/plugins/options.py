"""Options of a plugin, held to the JSON schema (draft 2020-12) that it declares as `options_schema`.

The schema comes from whoever installed the plugin, the options from whoever may commit. So these are bounded
before the schema sees them, no `$ref` is ever fetched, and patterns are matched by an engine that takes no
longer for odd ones. A schema that cannot be used is told like any other problem. `jsonschema` is imported
only here, when a plugin with a schema is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

MOST_VALUES, DEEPEST, LONGEST = 1000, 10, 1000
"""Of options that are held to a schema: how many values, levels of them, and characters of a text."""
MOST_ISSUES = 20
"""Of one plugin's options that are told."""
_LONGEST_REASON = 300
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def option_issues(schema: object, options: Mapping[str, Any], at: Loc) -> Iterator[Issue]:
    """What is wrong with `options`, which stand at `at`."""
    too_large = _size_issue(options, at)
    if too_large is not None:
        yield too_large
        return
    from jsonschema import SchemaError

    try:
        errors = list(islice(_validator(schema).iter_errors(options), MOST_ISSUES))
    except SchemaError as error:
        yield _unusable(at, error.message)
        return
    except Exception as error:  # A stranger's schema: a `$ref` to nowhere, one to itself, a bad expression.
        yield _unusable(at, f"{type(error).__name__}: {error}")
        return
    found = (issue for error in errors for issue in _explain(error, at))
    known: set[tuple[Loc, str]] = set()
    for issue in islice(found, MOST_ISSUES):
        if (issue.at, issue.message) not in known:
            known.add((issue.at, issue.message))
            yield issue


def _validator(schema: Any) -> Validator:
    """Raises SchemaError, ValueError for what is no schema, or one that could take for ever."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend
    from referencing import Registry

    Draft202012Validator.check_schema(schema, FormatChecker(formats=()))
    if _has_key(schema, "patternProperties"):
        raise ValueError("it has patternProperties; write propertyNames with a pattern instead")
    bounded: type[Validator] = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {"pattern": _check_pattern}
    )
    # A registry of its own: the default one would fetch what a `$ref` names.
    return bounded(schema, registry=Registry())


def _check_pattern(
    validator: Validator, pattern: str, instance: object, schema: object
) -> Iterator[ValidationError]:
    """As jsonschema's own, by an engine that takes no longer for odd patterns."""
    from jsonschema import ValidationError

    from schemas.expressions.patterns import compile_pattern

    if isinstance(instance, str) and not compile_pattern(pattern)(instance):
        yield ValidationError("it does not match")


def _has_key(schema: object, key: str) -> bool:
    if isinstance(schema, Mapping):
        return key in schema or any(_has_key(below, key) for below in schema.values())
    return isinstance(schema, list | tuple) and any(_has_key(below, key) for below in schema)


def _size_issue(options: object, at: Loc) -> Issue | None:
    """Too much for a schema, whose checks may take longer than linearly."""
    left: list[tuple[object, Loc]] = [(options, at)]
    count = 0
    while left:
        value, here = left.pop()
        count += 1
        if count > MOST_VALUES:
            message = f"a plugin's options are made of at most {MOST_VALUES} values"
            return Issue(at, message, "leave some out", "BAI-V050")
        below: list[tuple[object, Loc]] = []
        if isinstance(value, Mapping):
            texts = [key for key in value if isinstance(key, str)]
            below = [(item, (*here, key)) for key, item in value.items()]
        else:
            texts = [value] if isinstance(value, str) else []
            if isinstance(value, list | tuple):
                below = [(item, (*here, index)) for index, item in enumerate(value)]
        if any(len(text) > LONGEST for text in texts):
            message = f"a text among a plugin's options has at most {LONGEST} characters"
            return Issue(here, message, "shorten it", "BAI-V050")
        if below and len(here) - len(at) >= DEEPEST:
            message = f"a plugin's options are nested at most {DEEPEST} levels deep"
            return Issue(at, message, "leave some levels out", "BAI-V050")
        left += below
    return None


def _unusable(at: Loc, why: str) -> Issue:
    hint = "tell whoever makes the plugin, or install another version of it"
    message = f"the plugin's options_schema cannot be used: {why[:_LONGEST_REASON]}"
    return Issue(at, message, hint, "BAI-V050")


def _explain(error: ValidationError, at: Loc) -> Iterator[Issue]:
    """One mistake; of the branches of an `anyOf` the one that comes nearest."""
    from jsonschema.exceptions import best_match

    error = best_match([error]) or error
    here: Loc = (*at, *error.absolute_path)
    schema = error.schema if isinstance(error.schema, dict) else {}
    hint = _first_line(schema.get("description"))
    value: Any = error.instance
    wanted: Any = error.validator_value
    said = format_value(value)
    match str(error.validator):
        case "required":
            for name in [name for name in wanted if name not in value][:MOST_ISSUES]:
                about = _first_line(_option_schema(schema, name).get("description"))
                yield Issue(here, f"the option '{name}' is missing", about or "add it", "BAI-V021")
        case "additionalProperties" if wanted is False:
            options = schema.get("properties", {})
            for name in islice((name for name in value if name not in options), MOST_ISSUES):
                message = f"unknown option {format_value(name)}"
                yield Issue((*here, name), message, did_you_mean(name, options), "BAI-V020", key=True)
        case "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            kinds = " or ".join(_TYPES.get(name, name) for name in names)
            type_ = "string_type" if names == ["string"] else ""
            yield Issue(here, f"{said} is not {kinds}", hint, "BAI-V031", value, type=type_)
        case "enum" | "const":
            choices = wanted if error.validator == "enum" else [wanted]
            names = [format_value(one) for one in islice(choices, MOST_ISSUES)]
            yield Issue(here, f"{said} is not one of {', '.join(names)}", hint, "BAI-V030")
        case keyword if keyword in _BOUNDS:
            message = f"{said} is out of range: it must be {_BOUNDS[keyword]} {wanted}"
            yield Issue(here, message, hint, "BAI-V032")
        case keyword if keyword in _COUNTS:
            most = "at least" if keyword.startswith("min") else "at most"
            yield Issue(here, f"{most} {wanted} needed, {len(value)} given", hint, "BAI-V032")
        case "pattern":
            message = f"{said} does not match {format_value(wanted, 200)}"
            yield Issue(here, message, hint, "BAI-V032")
        case keyword:
            yield Issue(here, f"{said} is not what the plugin wants ({keyword})", hint, "BAI-V050")


def _option_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = schema.get("properties", {}).get(name)
    return found if isinstance(found, dict) else {}


def _first_line(text: object) -> str:
    return text.strip().partition("\n")[0][:200] if isinstance(text, str) else ""
