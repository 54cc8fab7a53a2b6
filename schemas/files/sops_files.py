"""Files that SOPS has encrypted: which entries they have, without decrypting any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.files.yaml_reader import read_documents
from schemas.problems.text import format_value, printable

METADATA = "sops"
_CIPHER, _TEXT = "ENC[AES256_GCM,", ",type:str]"
_KEYS = ("kms", "gcp_kms", "azure_kv", "hc_vault", "hckms", "pgp", "key_groups")
"""Kinds of keys for which `sops` asks servers that the file names, with this machine's credentials, or runs
other programs."""
_PLAIN = frozenset(
    {
        "age", "lastmodified", "mac", "version", "mac_only_encrypted", "unencrypted_suffix",
        "encrypted_suffix", "unencrypted_regex", "encrypted_regex", "unencrypted_comment_regex",
        "encrypted_comment_regex",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SopsFile:
    """An encrypted file. `text`: the same as JSON, from which nothing is left that was not looked at."""

    path: str
    text: str = field(repr=False)
    entries: frozenset[str]


def sops_reference(value: Any) -> str | None:
    """What a plain SecretStore document names as its encrypted file."""
    if not isinstance(value, dict) or value.get("kind") != "SecretStore":
        return None
    spec = value.get("spec")
    sops = spec.get("sops") if isinstance(spec, dict) else None
    found = sops.get("file") if isinstance(sops, dict) else None
    return found if isinstance(found, str) else None


def parse_sops_file(path: str, data: bytes) -> SopsFile:
    """What stands in such a file in clear. Raises ValueError with what is wrong, which repeats no value."""
    documents, problems = read_documents(data, printable(path))
    if problems:
        raise ValueError(f"{problems[0].place}: it is not plain YAML or JSON ({problems[0].code})")
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ValueError("it is not one mapping")
    value = documents[0].value
    if not isinstance(value.get(METADATA), dict):
        raise ValueError("SOPS has not encrypted it: it has no 'sops'")
    wrong = next(_metadata_faults(value[METADATA]), None)
    if wrong:
        raise ValueError(wrong)
    return SopsFile(
        path, json.dumps(value), frozenset(name for name in value if _is_encrypted_text(value[name]))
    )


def _is_encrypted_text(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_CIPHER) and value.endswith(_TEXT)


def _metadata_faults(metadata: Mapping[str, Any]) -> Iterator[str]:
    for name in _KEYS:
        if metadata.get(name):
            yield f"it is encrypted for {name} too: only recipients of age are used"
    for name in metadata:
        if name not in _PLAIN and name not in _KEYS and metadata[name] not in (None, 0):
            yield f"'sops' holds {format_value(name)}, which is not known here"
    age = metadata.get("age")
    if not isinstance(age, list) or not age:
        yield "it is encrypted for no recipient of age"
    if not isinstance(metadata.get("mac"), str):
        yield "it has no checksum (mac)"
