"""The API as OpenAPI 3.1: what FastAPI finds of our routes, in a form that is ours.

FastAPI and pydantic say some things otherwise from version to version: names of operations, titles, words for
statuses, how a refused request looks. Only what our own code says is taken over, so that the description is
the same whichever versions are installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

Part = Mapping[str, Any]
_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the access file, or a signed one (JWT) of an identity provider.",
    }
}
_SCHEMA_KEYWORDS = (
    "$ref", "type", "format", "const", "enum", "default", "anyOf", "items", "properties", "required",
    "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems",
)  # fmt: skip
"""Of JSON Schema, what our models and parameters use."""
_PUBLIC_PATHS = frozenset({"/api/v1/login"})
"""Below `/api/`, what needs no token."""
_SUCCESS_TEXTS = {"200": "The answer.", "202": "It is taken on.", "204": "It holds now."}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The whole description."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    paths = {path: _path(path, operations) for path, operations in sorted(found["paths"].items())}
    known: Part = found.get("components", {}).get("schemas", {})
    named = sorted(set(_referenced_models(paths, known)))
    return {
        "openapi": "3.1.0",
        "info": {"title": app.title, "description": app.description, "version": app.version},
        "paths": paths,
        "components": {
            "schemas": {name: _model(known[name]) for name in named},
            "securitySchemes": _SCHEMES,
        },
    }


def _path(path: str, operations: Part) -> dict[str, Any]:
    return {method: _operation(path, method, found) for method, found in sorted(operations.items())}


def _operation(path: str, method: str, found: Part) -> dict[str, Any]:
    made: dict[str, Any] = {"tags": found["tags"], "summary": found["summary"]}
    if text := found.get("description"):
        made["description"] = text
    made["operationId"] = _operation_id(path, method)
    if parameters := found.get("parameters"):
        made["parameters"] = sorted(map(_parameter, parameters), key=lambda each: (each["in"], each["name"]))
    if body := found.get("requestBody"):
        made["requestBody"] = {"required": body.get("required", False), "content": _content(body["content"])}
    made["responses"] = {status: _answer(status, each) for status, each in sorted(found["responses"].items())}
    if (path.startswith("/api/") or path == "/metrics") and path not in _PUBLIC_PATHS:
        made["security"] = [{"bearer": []}]
    return made


def _operation_id(path: str, method: str) -> str:
    """`get_clusters_cluster_events` of GET /api/v1/clusters/{cluster}/events."""
    words = path.removeprefix("/api/v1").replace("{", "").replace("}", "").replace("/", "_")
    return method + words


def _parameter(found: Part) -> dict[str, Any]:
    made = {"name": found["name"], "in": found["in"], "required": found.get("required", False)}
    if text := found.get("description"):
        made["description"] = text
    return {**made, "schema": _schema(found["schema"])}


def _answer(status: str, found: Part) -> dict[str, Any]:
    made: dict[str, Any] = {"description": found["description"]}
    if found["description"] == "Successful Response":
        made["description"] = _SUCCESS_TEXTS[status]
    # A status without a body has none, whatever is told of its type.
    if status not in ("204", "304") and "content" in found:
        made["content"] = _content(found["content"])
    return made


def _content(found: Part) -> dict[str, Any]:
    return {media: {"schema": _schema(each.get("schema", {}))} for media, each in sorted(found.items())}


def _model(found: Part) -> dict[str, Any]:
    """A named schema: its description is ours."""
    text = {"description": found["description"]} if "description" in found else {}
    return {**text, **_schema(found)}


def _schema(found: Any) -> Any:
    if isinstance(found, list):
        return [_schema(each) for each in found]
    if not isinstance(found, Mapping):
        return found
    made = {word: _schema(found[word]) for word in _SCHEMA_KEYWORDS if word in found and word != "properties"}
    if "properties" in found:
        made["properties"] = {name: _schema(each) for name, each in found["properties"].items()}
    if made.get("additionalProperties") is True:
        del made["additionalProperties"]
    return made


def _referenced_models(value: Any, known: Part) -> Iterator[str]:
    """Names of the models that are referred to, directly or by others."""
    if isinstance(value, Mapping):
        if isinstance(at := value.get("$ref"), str):
            name = at.rpartition("/")[2]
            yield name
            yield from _referenced_models(_schema(known[name]), known)
        for each in value.values():
            yield from _referenced_models(each, known)
    elif isinstance(value, list):
        for each in value:
            yield from _referenced_models(each, known)
