"""The published JSON Schemas, generated from the models: one per kind, and `bai.json` for any document.

`python -m schemas.loading.json_schema` writes them; with `--check` it says which are out of date, with exit
code 1.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from schemas.kinds.kind_registry import KINDS
from schemas.values.field_docs import field_description

FOLDER = Path(__file__).parents[1] / "json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNION = "bai"


class DescribedJsonSchema(GenerateJsonSchema):
    """With what the fields are for."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in model.model_fields.items():
            text = field_description(model, name)
            if text is not None:
                made["properties"][field.alias or name]["description"] = text
        return made


class _Generator(DescribedJsonSchema):
    """Without titles that only repeat a field's name, and with mappings closed to other keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        made = super().dict_schema(schema)
        return made | {"additionalProperties": False} if "patternProperties" in made else made


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON Schema of one kind. Raises KeyError for an unknown kind."""
    made = KINDS[kind].model_json_schema(by_alias=True, schema_generator=_Generator)
    return _publish(made, f"bai {kind}")


def union_schema() -> dict[str, Any]:
    """The JSON Schema of any document: `kind` chooses, so that an editor reports one error and not eleven."""
    models = [(model, "validation") for model in KINDS.values()]
    _, made = models_json_schema(models, by_alias=True, schema_generator=_Generator)  # type: ignore[arg-type]
    choice = {
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"kind": {"enum": list(KINDS)}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in KINDS
        ],
    }
    return _publish(choice | {"$defs": made["$defs"]}, "bai")


def _publish(schema: Mapping[str, Any], title: str) -> dict[str, Any]:
    body = {key: _strip_titles(value) for key, value in schema.items() if key != "title"}
    return {"$schema": DIALECT, "title": title} | body


def _strip_titles(value: Any, name: str = "") -> Any:
    """Without the class names that Pydantic puts into `title`."""
    if isinstance(value, list):
        return [_strip_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = name in {"properties", "$defs", "patternProperties"}
    return {
        key: _strip_titles(item, "" if inner else key)
        for key, item in value.items()
        if inner or key != "title"
    }


@functools.cache
def schema_files() -> tuple[tuple[str, str], ...]:
    """Name and text of every published file."""
    kinds = ((f"{kind.lower()}.json", _format_schema(schema_of(kind))) for kind in KINDS)
    return (*kinds, (f"{UNION}.json", _format_schema(union_schema())))


def _format_schema(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def stale_files(folder: Path = FOLDER) -> list[str]:
    """Names of the files that are missing, different, or of no kind any more."""
    wanted = dict(schema_files())
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def write_files(folder: Path = FOLDER) -> None:
    """Bring the published files up to date."""
    folder.mkdir(exist_ok=True)
    wanted = dict(schema_files())
    for path in folder.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The command; gives its exit code."""
    if list(arguments) == ["--check"]:
        old = stale_files()
        if old:
            print(f"not up to date: {', '.join(old)}; run python -m schemas.loading.json_schema")
        return 1 if old else 0
    if arguments:
        print("usage: python -m schemas.loading.json_schema [--check]")
        return 1
    write_files()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
