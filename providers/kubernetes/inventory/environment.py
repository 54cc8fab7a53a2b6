"""A container's variables and command as a session has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""The cluster gives every container variables of its services, which no pod shows."""
_SECRET_WORDS = frozenset({"PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "APIKEY", "CREDENTIALS"})
_SECRET_PAIRS = frozenset({("API", "KEY"), ("ACCESS", "KEY"), ("PRIVATE", "KEY")})


@dataclass(frozen=True, slots=True)
class Environment:
    """`obstacles`: what no document can say."""

    plain: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[Mapping[str, str]] = ()
    command: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


class _Unknown(Exception):
    """A reference to a variable whose value is not known here."""


def read_environment(container: Mapping[str, Any], store: str) -> Environment:
    """`store`: the SecretStore that has the cluster's secrets, as `<secret>.<key>`; empty: there is none."""
    plain: dict[str, str] = {}
    secrets: dict[str, str] = {}
    obstacles: list[str] = []
    for each in container.get("envFrom") or ():
        obstacles.append(f"it takes all variables of {_source_of_all(each)}")
    for each in container.get("env") or ():
        name = str(each.get("name"))
        plain.pop(name, None)
        secrets.pop(name, None)
        if "valueFrom" in each:
            reference, obstacle = _reference(name, each["valueFrom"] or {}, store)
            obstacles += [obstacle] if obstacle else []
            if reference:
                secrets[name] = reference
            continue
        value = str(each.get("value") or "")
        if value and _names_secret(name):
            obstacles.append(f"{name} is called like a secret, and documents hold none")
            continue
        try:
            plain[name] = _expanded(value, plain, secrets)
        except _Unknown as error:
            obstacles.append(f"{name} refers to $({error}), which is no plain variable before it")
    command: list[str] = []
    try:
        words = (*(container.get("command") or ()), *(container.get("args") or ()))
        command = [_expanded(str(word), plain, secrets) for word in words]
    except _Unknown as error:
        obstacles.append(f"its command refers to $({error}), which is no plain variable of its")
    found = [{"env": name, "from": reference} for name, reference in secrets.items()]
    return Environment(plain, found, tuple(command), tuple(obstacles))


def _expanded(text: str, known: Mapping[str, str], secrets: Collection[str]) -> str:
    """As the kubelet replaces `$(NAME)`, and `$$` by `$`
    (k8s.io/kubernetes/third_party/forked/golang/expansion): what is no variable stays, as `$(date)` of a
    shell. Raises _Unknown."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "$"
        if name in secrets or (name not in known and _VARIABLE.fullmatch(name)):
            raise _Unknown(name[:60])
        return known.get(name, found[0])

    return _REFERENCE.sub(value, text)


def _reference(name: str, source: Mapping[str, Any], store: str) -> tuple[str, str]:
    """`STORE/ENTRY` of a variable, or why there is none."""
    secret = source.get("secretKeyRef")
    if secret is None:
        kind = next(iter(source), "something")
        return "", f"{name} is set by a {kind}"
    where = f"{secret.get('name')}.{secret.get('key')}"
    if not store:
        return "", f"{name} is of the secret {secret.get('name')}: --secrets-from names the store that has it"
    return f"{store}/{where}", ""


def _source_of_all(source: Mapping[str, Any]) -> str:
    kind, words = ("secretRef", "secret") if "secretRef" in source else ("configMapRef", "config map")
    return f"the {words} {(source.get(kind) or {}).get('name')}"


def _names_secret(name: str) -> bool:
    words = name.upper().split("_")
    return bool(_SECRET_WORDS & set(words)) or bool(_SECRET_PAIRS & set(pairwise(words)))
