"""Secrets of labs: the folder of a lab as a store of its owner's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from reconciler.secrets.reader import SecretReader
from schemas.kinds.secret_store import SecretStore
from schemas.repository.declared_stores import DeclaredStore, DeclaredStores

NAME = "secret-stores.yaml"


def declared(folder: Path, *entries: str, name: str = "lab") -> dict[str, object]:
    """A store whose entries are files of `folder`, for everything."""
    spec = {
        "projects": ["*"],
        "infrastructure": True,
        "entries": list(entries),
        "directory": {"path": str(folder)},
    }
    return {"apiVersion": "bai/v1", "kind": "SecretStore", "metadata": {"name": name}, "spec": spec}


def environment(*variables: str, name: str = "env") -> dict[str, object]:
    """A store of variables, for everything."""
    spec = {"projects": ["*"], "infrastructure": True, "entries": list(variables), "environment": {}}
    return {"apiVersion": "bai/v1", "kind": "SecretStore", "metadata": {"name": name}, "spec": spec}


def owner_file(path: Path, *stores: dict[str, object]) -> Path:
    """For `--secret-stores` and `BAI_SECRET_STORES`."""
    path.write_text("\n---\n".join(map(json.dumps, stores)) + "\n")
    return path


def reader(*stores: dict[str, object]) -> SecretReader:
    """Of these stores."""
    models = [SecretStore.model_validate(each) for each in stores]
    return SecretReader(DeclaredStores({each.name: DeclaredStore(each) for each in models}), keep=0.0)


def secret_of(folder: Path, *entries: str) -> Callable[[str], str]:
    """What reads `lab/<file>`, as an endpoint wants it."""
    return reader(declared(folder, *entries)).for_infrastructure
