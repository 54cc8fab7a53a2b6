"""The session that a command line asks for, as a document."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from typing import Any

from bai.cli.run.request_values import only_project, parse_pairs
from bai.cli.run.templates import parse_parameters
from schemas.problems.errors.command import CommandError
from schemas.repository.repository import Repository
from schemas.values.naturals import parse_natural

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i")
CPU, MEMORY = "1", "4GiB"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """As it was typed; what is empty was not said."""

    name: str = ""
    project: str = ""
    command: tuple[str, ...] = ()
    gpus: float = 0
    cpu: str = ""
    memory: str = ""
    image: str = ""
    group: str = ""
    env: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    template: str = ""
    values: tuple[str, ...] = ()
    batch: bool = False

    def document(self, repository: Repository, mark: str) -> dict[str, Any]:
        """The document; `mark` makes a made-up name unique. Raises CommandError."""
        name = self.name or f"{_user_name()}-{self.template or 'run'}-{mark}"[:60]
        metadata = {"name": name, "project": self.project or only_project(repository)}
        return {
            "apiVersion": "bai/v1",
            "kind": "Session",
            "metadata": metadata,
            "spec": self._spec(repository),
        }

    def _spec(self, repository: Repository) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        if self.template:
            given = parse_parameters(repository, self.template, self.values)
            spec["from"] = {"template": self.template, "parameters": given}
        if not self.template or self.batch:
            spec["type"] = "batch" if self.batch else "interactive"
        if resources := self._resources():
            spec["resources"] = resources
        if self.command or not self.template:
            spec["command"] = list(self.command or SHELL)
        if not self.batch and not self.template:
            spec["tty"] = True
        spec |= {"image": self.image} if self.image else {}
        spec |= {"resourceGroup": self.group} if self.group else {}
        if self.env:
            spec["env"] = parse_pairs(self.env, "--env")
        if self.mounts:
            spec["mounts"] = [_parse_mount(text) for text in self.mounts]
        return spec

    def _resources(self) -> dict[str, Any]:
        if self.template and not (self.cpu or self.memory or self.gpus):
            return {}
        cpu, memory = self.cpu or CPU, self.memory or MEMORY
        cores = parse_natural(cpu)
        found: dict[str, Any] = {"cpu": cpu if cores is None else cores, "memory": memory}
        if self.gpus:
            whole = self.gpus == int(self.gpus)
            found |= {"cuda.device": int(self.gpus)} if whole else {"cuda.shares": self.gpus}
        return found


def _user_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return _NOT_IN_NAMES.sub("-", user.lower()).strip("-")[:20] or "somebody"


def _parse_mount(text: str) -> dict[str, Any]:
    volume, mark, path = text.partition(":")
    if not mark or not path.startswith("/"):
        raise CommandError(why=f"--mount: {text!r} is not VOLUME:/PATH", hint="add :ro to read only")
    path, _, option = path.partition(":")
    if option not in ("", "ro"):
        raise CommandError(why=f"--mount: {option!r} is not ro")
    return {"volume": volume, "path": path} | ({"readOnly": True} if option else {})
