"""A session's document as fields of a form, and back. What no field has stays in the document. Pure."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from schemas.files.yaml_reader import read_documents
from schemas.loading.fmt import format_text
from schemas.loading.json_schema import schema_of
from schemas.values.naturals import parse_natural

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FormField:
    """One field: what its schema says of it. `choices` of a select; `lines` for several values, one in each;
    `least` and `most` of a number."""

    name: str
    label: str
    hint: str
    choices: tuple[str, ...] = ()
    lines: bool = False
    least: int | None = None
    most: int | None = None


_LABELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "project": ("Project", ("metadata", "project")),
    "name": ("Name", ("metadata", "name")),
    "template": ("Template", ("spec", "from", "template")),
    "type": ("Type", ("spec", "type")),
    "group": ("Resource group", ("spec", "resourceGroup")),
    "image": ("Image", ("spec", "image")),
    "command": ("Command", ("spec", "command")),
    "cpu": ("Cores", ("spec", "resources", "cpu")),
    "memory": ("Memory", ("spec", "resources", "memory")),
    "gpus": ("GPUs", ()),
    "containers": ("Containers", ("spec", "cluster", "roles")),
    "spread": ("Over nodes", ("spec", "cluster", "mode")),
    "priority": ("Priority", ("spec", "priority")),
    "mounts": ("Volumes", ("spec", "mounts")),
    "env": ("Environment", ("spec", "env")),
    "ports": ("Ports", ("spec", "ports")),
    "parameters": ("Parameters of the template", ("spec", "from", "parameters")),
}
_HINTS = {
    "project": "Whose quotas count, and who sees it.",
    "name": "Small letters, digits and hyphens.",
    "template": "Says what is not said here.",
    "parameters": "NAME=VALUE, one in a line.",
    "command": "As in a shell, which does not read it.",
    "cpu": "Of each container: 4, or 500m.",
    "memory": "Of each container: 16GiB.",
    "gpus": "Of each container: 2, or 0.5 of one.",
    "containers": "One main, the others workers.",
    "mounts": "VOLUME:/PATH or VOLUME:/PATH:ro, one in a line.",
    "env": "NAME=VALUE, one in a line.",
    "ports": "NAME:PORT, one in a line.",
}
_LINES = frozenset({"parameters", "mounts", "env", "ports"})
FIELDS = tuple(_LABELS)


@cache
def form_fields() -> Mapping[str, FormField]:
    """The fields by name, with what the published JSON Schema says of them."""
    schema = schema_of("Session")
    return {name: _form_field(schema, name, *found) for name, found in _LABELS.items()}


def _form_field(schema: Mapping[str, Any], name: str, label: str, path: tuple[str, ...]) -> FormField:
    found = _schema_at(schema, path)
    hint = _HINTS.get(name) or str(found.get("description", "")).replace("`", "")
    numbers = {key: found.get(part) for key, part in (("least", "minimum"), ("most", "maximum"))}
    return FormField(
        name, label, hint, tuple(found.get("enum", ())), name in _LINES,
        *(value if isinstance(value, int) else None for value in numbers.values()),
    )  # fmt: skip


def _schema_at(schema: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema
    for part in path:
        found = _resolved(schema, _resolved(schema, found).get("properties", {}).get(part, {}))
    return found


def _resolved(schema: Mapping[str, Any], found: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference leads to; of several kinds the one that is not null."""
    for each in found.get("anyOf", ()) or found.get("allOf", ()):
        if each.get("type") != "null":
            return {**_resolved(schema, each), **{k: v for k, v in found.items() if k == "description"}}
    if "$ref" in found:
        return {**schema["$defs"][str(found["$ref"]).rpartition("/")[2]], **found}
    return found


# The document as fields


def fields_of(document: Any) -> dict[str, str]:
    """What the fields say of a document; empty where it does not say it, or in a way that no field has."""
    metadata, spec = _mapping(document, "metadata"), _mapping(document, "spec")
    source, layout, resources = (_mapping(spec, part) for part in ("from", "cluster", "resources"))
    roles = _mapping(layout, "roles")
    shares, devices = resources.get("cuda.shares"), resources.get("cuda.device")
    found = {
        "project": metadata.get("project"),
        "name": metadata.get("name"),
        "template": source.get("template"),
        "parameters": _pairs_text(source.get("parameters")),
        "type": spec.get("type"),
        "group": spec.get("resourceGroup"),
        "image": spec.get("image"),
        "command": _command_text(spec.get("command")),
        "cpu": resources.get("cpu"),
        "memory": resources.get("memory"),
        "gpus": shares if devices is None else devices,
        "containers": sum(n for n in roles.values() if type(n) is int) if roles else None,
        "spread": layout.get("mode"),
        "priority": spec.get("priority"),
        "mounts": _lines_text(spec.get("mounts"), _mount_text),
        "env": _pairs_text(spec.get("env")),
        "ports": _lines_text(spec.get("ports"), _port_text),
    }
    return {name: "" if value is None else str(value) for name, value in found.items()}


def _mapping(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _command_text(command: Any) -> str:
    return shlex.join(map(str, command)) if isinstance(command, list) else ""


def _pairs_text(values: Any) -> str:
    return "\n".join(f"{key}={value}" for key, value in values.items()) if isinstance(values, dict) else ""


def _lines_text(values: Any, text: Callable[[dict[str, Any]], str]) -> str:
    return (
        "\n".join(text(each) for each in values if isinstance(each, dict)) if isinstance(values, list) else ""
    )


def _mount_text(mount: dict[str, Any]) -> str:
    return (
        f"{mount.get('volume', '')}:{mount.get('path', '')}{':ro' if mount.get('readOnly') is True else ''}"
    )


def _port_text(port: dict[str, Any]) -> str:
    return f"{port.get('name', '')}:{port.get('port', '')}"


# Fields into the document


def with_fields(document: Any, fields: Mapping[str, str]) -> Document:
    """The document with the fields that say something else than it does."""
    made: Document = copy.deepcopy(document) if isinstance(document, dict) else {}
    made = {"apiVersion": "bai/v1", "kind": "Session", "metadata": {}, "spec": {}} | made
    known = fields_of(document)
    for name in FIELDS:
        value = fields.get(name, known[name]).replace("\r\n", "\n").strip()
        if value != known[name].strip():
            _SETTERS[name](made, value)
    return made


def _put(made: Document, path: tuple[str, ...], value: Any) -> None:
    """None and what is empty goes, with the mappings that are then empty below the section."""
    *folders, last = path
    places = [made]
    for part in folders:
        below = places[-1].get(part)
        places.append(below if isinstance(below, dict) else {})
        places[-2][part] = places[-1]
    if value in (None, "", [], {}):
        places[-1].pop(last, None)
    else:
        places[-1][last] = value
    for at in range(len(folders) - 1, 0, -1):
        if not places[at + 1]:
            places[at].pop(folders[at], None)


def _plain(name: str) -> Callable[[Document, str], None]:
    return lambda made, text: _put(made, _LABELS[name][1], text)


def _number(name: str) -> Callable[[Document, str], None]:
    return lambda made, text: _put(made, _LABELS[name][1], _as_number(text))


def _as_number(text: str) -> int | str:
    number = parse_natural(text)
    return text if number is None else number


def _set_command(made: Document, text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()  # A quotation is open still.
    _put(made, ("spec", "command"), words)


def _set_gpus(made: Document, text: str) -> None:
    for slot in ("cuda.device", "cuda.shares"):
        _put(made, ("spec", "resources", slot), None)
    number = parse_natural(text)
    if number != 0:
        slot = "cuda.shares" if "." in text else "cuda.device"
        _put(made, ("spec", "resources", slot), _as_share(text) if number is None else number)


def _as_share(text: str) -> float | str:
    whole, mark, part = text.partition(".")
    digits = (
        bool(mark) and part.isascii() and part.isdigit() and (not whole or parse_natural(whole) is not None)
    )
    return float(f"{whole or 0}.{part}") if digits else text


def _set_containers(made: Document, text: str) -> None:
    number = parse_natural(text)
    roles: Any = {"main": 1, "sub": number - 1} if number is not None and number > 1 else None
    _put(made, ("spec", "cluster", "roles"), roles if number is not None or not text else {"main": text})


def _set_pairs(path: tuple[str, ...], value: Callable[[str], Any]) -> Callable[[Document, str], None]:
    def put(made: Document, text: str) -> None:
        pairs = (line.partition("=") for line in text.splitlines() if line.strip())
        _put(made, path, {key.strip(): value(rest) for key, _, rest in pairs})

    return put


def _set_mounts(made: Document, text: str) -> None:
    known = {_mount_text(each): each for each in _dicts(made, "mounts")}
    _put(made, ("spec", "mounts"), [known.get(line) or _mount(line) for line in _lines(text)])


def _mount(line: str) -> Document:
    volume, _, rest = line.partition(":")
    path, mark, _ = rest.rpartition(":ro") if rest.endswith(":ro") else (rest, "", "")
    return {"volume": volume, "path": path} | ({"readOnly": True} if mark else {})


def _set_ports(made: Document, text: str) -> None:
    known = {_port_text(each): each for each in _dicts(made, "ports")}
    parts = ((line, *line.partition(":")[::2]) for line in _lines(text))
    ports = [known.get(line) or {"name": name, "port": _as_number(port)} for line, name, port in parts]
    _put(made, ("spec", "ports"), ports)


def _dicts(made: Document, name: str) -> list[Document]:
    return _only_dicts(_mapping(made, "spec").get(name))


def _only_dicts(values: Any) -> list[Document]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _parameter(text: str) -> Any:
    """As YAML reads it, where it is one plain value."""
    raws, problems = read_documents(text.encode(), "")
    value = raws[0].value if len(raws) == 1 and not problems else text
    return value if isinstance(value, str | int | float | bool) else text


_TEXTS = ("project", "name", "template", "type", "group", "image", "memory", "spread")
_SETTERS: Mapping[str, Callable[[Document, str], None]] = {
    **{name: _plain(name) for name in _TEXTS},
    **{name: _number(name) for name in ("cpu", "priority")},
    "parameters": _set_pairs(("spec", "from", "parameters"), _parameter),
    "command": _set_command,
    "gpus": _set_gpus,
    "containers": _set_containers,
    "mounts": _set_mounts,
    "env": _set_pairs(("spec", "env"), str),
    "ports": _set_ports,
}  # fmt: skip


def document_text(document: Any) -> str:
    """As YAML in bai's style. Texts are written by the library, so that none of them is more than a text."""
    return format_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())
