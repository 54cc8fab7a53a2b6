"""Writes the reference pages that follow from the code; `--check` only says whether they are fresh."""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from doc_commands import commands_page
from doc_health import health_page
from doc_reviews import reviews_page
from doc_text import MADE, escaped

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"


# --- kinds ------------------------------------------------------------------------------------------------


def kinds_page() -> str:
    """Every kind with every field, from the models."""
    from schemas.kinds.kind_registry import KINDS
    from schemas.loading.json_schema import DescribedJsonSchema

    parts = [MADE, "# Kinds\n", _KINDS_HEAD]
    parts += [f"[{name}](#{name.lower()})" + (" ·" if name != list(KINDS)[-1] else "\n") for name in KINDS]
    shared: dict[str, Mapping[str, Any]] = {}
    for name, model in KINDS.items():
        schema = model.model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
        definitions = schema.get("$defs", {})
        spec = _resolved(schema["properties"]["spec"], definitions)
        parts.append(f"\n## {name}\n\n{_text(schema)}\n")
        example = _example(name)
        if example:
            parts.append(f"```yaml\n{example}```\n")
        parts.append(_table(spec, definitions))
        shared |= definitions
    parts.append(_parts_section(KINDS, shared))
    return "\n".join(parts)


_KINDS_HEAD = """\
A document is `apiVersion: bai/v1`, `kind`, `metadata` (`name`, where it belongs to a project also `project`,
`labels`, `annotations`) and `spec`. The tables below list the fields of `spec`. Unknown fields are errors.
Amounts: memory `512MiB`, `64GiB`; cores `16` (exclusive) or `500m` (shared); durations `90s`, `1h30m`.
"""


def _parts_section(kinds: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> str:
    skip = {f"{kind}Spec" for kind in kinds}
    lines = ["\n## Parts\n\nWhat the fields above are made of."]
    for name in sorted(definitions):
        part = definitions[name]
        if name in skip or part.get("type") != "object":
            continue
        lines.append(f"\n### {name}\n\n{_text(part)}\n\n{_table(part, definitions)}")
    return "\n".join(lines) + "\n"


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = node.get("$ref") or next(
        (part["$ref"] for part in (*node.get("allOf", ()), *node.get("anyOf", ())) if "$ref" in part), None
    )
    return definitions[reference.rsplit("/", 1)[-1]] if reference else node


def _text(node: Mapping[str, Any]) -> str:
    return " ".join(str(node.get("description", "")).split())


def _table(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    properties: Mapping[str, Any] = node.get("properties", {})
    later = _later()
    rows = []
    for field, schema in properties.items():
        required = " (required)" if field in node.get("required", ()) else ""
        note = " *Accepted, not acted on yet.*" if (node.get("title"), field) in later else ""
        rows.append(
            f"| `{field}`{required} | {_type(schema)} | {_default(schema)} | {escaped(_text(schema))}{note} |"
        )
    rows += [f"| {_pattern(p)} | {_type(s)} | | |" for p, s in node.get("patternProperties", {}).items()]
    if not rows:
        return "No fields.\n"
    return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows]) + "\n"


@functools.cache
def _later() -> frozenset[tuple[str, str]]:
    """(title of the part, field) of everything that the models accept and nothing carries out."""
    from schemas.kinds.kind_registry import KINDS
    from schemas.loading.json_schema import DescribedJsonSchema
    from schemas.rules.inactive_fields import INACTIVE_FIELDS

    found = set()
    for kind, paths in INACTIVE_FIELDS.items():
        schema = KINDS[kind].model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
        for path in paths:
            node: Mapping[str, Any] = schema
            for step in path[:-1]:
                node = _resolved(node["properties"][step], schema["$defs"])
            found.add((str(node["title"]), str(path[-1])))
    return frozenset(found)


def _pattern(pattern: str) -> str:
    names = {".device": "cuda.device", ".shares": "cuda.shares", ".mig": "cuda.mig.1g.10gb"}
    example = next((text for mark, text in names.items() if mark in pattern.replace("\\", "")), "")
    return f"`{example}`, …" if example else f"`{escaped(pattern)}`"


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if value in (None, {}, [], "") or isinstance(value, dict):
        return ""
    if value is True or value is False:
        return f"`{str(value).lower()}`"
    return f"`{_amount(value, _examples(schema))}`"


def _examples(schema: Mapping[str, Any]) -> list[object]:
    return [
        *schema.get("examples", ()),
        *(e for part in schema.get("anyOf", ()) for e in part.get("examples", ())),
    ]


def _amount(value: Any, examples: list[object]) -> object:
    """A default as people write it; the schema holds it in its smallest unit."""
    from schemas.values.quantities import format_duration, format_memory, format_shares

    formats = {"90s": format_duration, "64GiB": format_memory, "0.5": format_shares, "5%": "{}%".format}
    known = next((formats[str(example)] for example in examples if str(example) in formats), None)
    return known(value) if known and isinstance(value, int) else value


def _type(schema: Mapping[str, Any]) -> str:
    from schemas.values.kind_names import KIND_NAMES

    if "$ref" in schema or "allOf" in schema:
        name = (schema.get("$ref") or schema["allOf"][0]["$ref"]).rsplit("/", 1)[-1]
        kind = name.removesuffix("Spec")
        return f"[{name}](#{(kind if kind in KIND_NAMES else name).lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        options = [_type(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    return _plain_type(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"map of {_type(values)}" if isinstance(values, dict) and values else "map"
    examples = schema.get("examples")
    return f"{kind} (`{'`, `'.join(map(str, examples))}`)" if examples else str(kind)


_EXAMPLES = {"Session": "quickstart/sessions/web.yaml", "NodeProfile": "profiles/profiles.yaml"}


def _example(kind: str) -> str:
    """A document of this kind among the examples, as it stands there."""
    import yaml

    paths = sorted(
        (ROOT / "examples").rglob("*.yaml"), key=lambda path: ("quickstart" not in path.parts, path)
    )
    first = [ROOT / "examples" / _EXAMPLES[kind]] if kind in _EXAMPLES else []
    for path in first + paths:
        for text in path.read_text(encoding="utf-8").split("\n---\n"):
            document = yaml.safe_load(text)
            if isinstance(document, dict) and document.get("kind") == kind:
                lines = [line for line in text.splitlines() if not line.startswith("#")]
                return "\n".join(lines) + "\n"
    return ""


# --- the plan as JSON --------------------------------------------------------------------------------------


def plan_page() -> str:
    """The saved plan's format, from the values it is written from."""
    from pydantic import TypeAdapter

    from reconciler.values.encoding.plan_json import VERSION
    from reconciler.values.plan import Plan

    schema = TypeAdapter(Plan).json_schema(mode="serialization")
    definitions: dict[str, Any] = {**schema.get("$defs", {}), "Plan": schema}
    flattened = {"cause": {"$ref": "#/$defs/CauseCode"}, "why": {"type": "string"}}
    definitions["Action"]["properties"] |= flattened
    docs = _attribute_docs(
        "reconciler/values/plan.py", "reconciler/values/sides.py", "reconciler/values/changes/cause.py",
        "reconciler/values/changes/change.py", "planner/model/types.py", "planner/model/huge_pages.py",
        "providers/base.py",
        "providers/gpu/gpu_share.py",
        "reconciler/values/records.py", "reconciler/values/rollout.py", "providers/provisioning.py",
    )  # fmt: skip
    docs["Action", "why"] = "The cause in words, for readers."
    parts = [MADE, "# The plan as JSON\n", _PLAN_HEAD.format(version=VERSION)]
    for name in ["Plan", *sorted(set(definitions) - {"Plan"})]:
        part = definitions[name]
        if "enum" in part:
            rows = (f"| `{value}` | {docs.get((name, value), '')} |" for value in part["enum"])
            parts.append(f"\n## {name}\n\n{docs.get((name, ''), '')}\n")
            parts += ["| value | meaning |", "|---|---|", *rows, ""]
        if part.get("type") != "object" or name == "Cause":
            continue
        fields = {
            f: s | {"description": docs.get((name, f)) or docs.get(("Side", f), "")}
            for f, s in part.get("properties", {}).items()
        }
        parts.append(f"\n## {name}\n\n{docs.get((name, ''), '')}\n")
        parts.append(_table({"properties": fields, "required": []}, definitions))
    return "\n".join(parts)


_PLAN_HEAD = """\
`bai plan --format json` prints, and `bai plan --out FILE` saves, one object: `version` (`"{version}"`) and
`plan`, described here. The same documents, the same cluster and the same time give the same bytes. `verb` is
written for readers; it follows from what an action has, and `why` is its `cause` in words. The sides of all
kinds have the fields of a session's, which say nothing where there is none. `digest` covers everything but
itself and `made_at`: a plan that was changed by hand is refused. Within a version fields are only ever added.
"""


def _attribute_docs(*modules: str) -> dict[tuple[str, str], str]:
    """(class, field) to its docstring, and (class, "") to the class's own."""
    import ast

    found: dict[tuple[str, str], str] = {}
    for module in modules:
        for cls in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
            if not isinstance(cls, ast.ClassDef):
                continue
            found[cls.name, ""] = " ".join((ast.get_docstring(cls) or "").split())
            for field, after in zip(cls.body, cls.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    found[cls.name, field.target.id] = _docstring(after)
                elif isinstance(field, ast.Assign) and isinstance(field.value, ast.Constant):
                    found[cls.name, str(field.value.value)] = _docstring(after)  # A member of an enumeration.
    return found


def _docstring(node: Any) -> str:
    import ast

    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return " ".join(node.value.value.split())
    return ""


# --- errors -----------------------------------------------------------------------------------------------


def errors_page() -> str:
    """Every error class and every code of a problem in a document."""
    from schemas.problems import errors
    from schemas.problems.codes import CODES
    from schemas.problems.errors.base import BaiError

    for module in pkgutil.iter_modules(errors.__path__, f"{errors.__name__}."):
        importlib.import_module(module.name)

    parts = [
        MADE,
        "# Errors\n",
        _ERRORS_HEAD,
        "| code | name | message | worth trying again |",
        "|---|---|---|---|",
    ]
    for error in sorted(_tree(BaiError), key=lambda found: found.code):
        message = " ".join((error.__doc__ or "").split("\n\n")[0].split())
        if message == "{message}":
            continue
        again = "yes" if error.retryable else ""
        parts.append(f"| `{error.code}` | {error.__name__} | {escaped(message)} | {again} |")
    parts += [
        "\n## Problems in documents\n",
        _PROBLEMS_HEAD,
        "| code | problem | what to do |",
        "|---|---|---|",
    ]
    parts += [
        f"| `{code}` | {escaped(about.title)} | {escaped(about.remedy)} |" for code, about in CODES.items()
    ]
    return "\n".join(parts) + "\n"


_ERRORS_HEAD = """\
Every message of `bai` carries a code that stays the same. Words in braces are filled in with what was found.
Whatever fails, the exit code is 1 and nothing is half written; 2 only ever means "there are changes"
(`bai plan --detailed-exitcode`).
"""

_PROBLEMS_HEAD = """\
`bai validate` lists every mistake at once, as
`file:line:column: code (path): what is wrong; what would be right`.
"""


def _tree(error: type[Any]) -> Iterator[type[Any]]:
    yield error
    for child in error.__subclasses__():
        yield from _tree(child)


# --- writing ----------------------------------------------------------------------------------------------

PAGES: Mapping[str, Callable[[], str]] = {
    "kinds.md": kinds_page,
    "errors.md": errors_page,
    "commands.md": commands_page,
    "plan-json.md": plan_page,
    "reviews.md": reviews_page,
    "health.md": health_page,
}


def stale(pages: Mapping[str, str]) -> list[str]:
    """What differs between the pages as they are and as they should be, as unified diffs."""
    found = []
    for name, wanted in pages.items():
        path = REFERENCE / name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if there != wanted:
            lines = difflib.unified_diff(
                there.splitlines(), wanted.splitlines(), str(path), "generated", lineterm="", n=1
            )
            found.append("\n".join(list(lines)[:40]))
    return found


def main(arguments: list[str]) -> int:
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    sys.path.insert(0, str(ROOT))
    pages = {name: page() for name, page in PAGES.items()}
    if "--check" in arguments:
        problems = stale(pages)
        print("\n".join(problems) + "\nrun `make generate`" if problems else "the reference pages are fresh")
        return 1 if problems else 0
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
