"""SecretStore: named secrets, who may use them, and where their values are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Flag, Model, Resource
from schemas.values.names import AbsolutePath, EntryPattern, Name, ProjectOrAll, RelativePath, Text

BACKENDS = ("directory", "environment", "sops", "plugin")
EVERYBODY = "*"


class DirectoryStore(Model):
    """The files of a folder of the machine that runs bai, by their names. Only plain files that lie in it and
    have no other name are read, at most 64 KiB of text."""

    path: AbsolutePath


class EnvironmentStore(Model):
    """Variables of the process that runs bai."""


class SopsStore(Model):
    """A file of the repository that SOPS has encrypted for age. Its entries are its top-level texts."""

    file: RelativePath
    """YAML or JSON, beside the document or from the repository's root."""
    key_file: AbsolutePath | None = None
    """The age identities that decrypt it, on the machine that runs bai; only in the owner's file. Left out:
    `SOPS_AGE_KEY_FILE`, or `~/.config/sops/age/keys.txt`."""


class PluginStore(Model):
    """A program of your own."""

    name: Name
    """Of its entry point in the group `bai.secret_stores`."""
    options: Mapping[Text, Any] = {}
    """What it is given."""


class SecretStoreSpec(Model):
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [one], "properties": {one: {"type": "object"}}} for one in BACKENDS]
        }
    )

    entries: Annotated[tuple[EntryPattern, ...], Field(min_length=1, max_length=1000)]
    """Names of the entries that may be used, or patterns: `*` any characters, `?` one."""
    projects: tuple[ProjectOrAll, ...] = ()
    """Whose sessions may use them; `"*"` for all."""
    infrastructure: Flag = False
    """Whether what is no session's may: registries, notifications, node profiles, ways to nodes."""
    directory: DirectoryStore | None = None
    """Only in the owner's file."""
    environment: EnvironmentStore | None = None
    """Only in the owner's file; entries are names of variables, without patterns."""
    sops: SopsStore | None = None
    plugin: PluginStore | None = None
    """Only in the owner's file."""

    @model_validator(mode="after")
    def _require_exactly_one(self) -> SecretStoreSpec:
        if [getattr(self, one) for one in BACKENDS].count(None) != len(BACKENDS) - 1:
            raise issues_error([Issue((), f"exactly one of {', '.join(BACKENDS)}", code="BAI-V034")])
        return self

    @property
    def backend(self) -> str:
        """Which of the four."""
        return next(one for one in BACKENDS if getattr(self, one) is not None)


class SecretStore(Resource):
    """Named secrets, who may use them, and where their values are."""

    singular = "secret store"
    kind: Literal["SecretStore"]
    spec: SecretStoreSpec
