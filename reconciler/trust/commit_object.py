"""A commit's bytes → Commit. Pure.

Stricter than git, which reads what it can: nothing may be left over that one program could read in one way
and another in another one.
"""

from __future__ import annotations

import re

from reconciler.trust.values import Commit

_PERSON = re.compile(rb"[^<>\0]*<([^<>\0]*)> \d{1,19} [+-]\d{4}")
_SIGNATURE_HEADERS = {40: b"gpgsig", 64: b"gpgsig-sha256"}
"""The header of the signature that is over this object, by the length of its name: SHA-1 or SHA-256."""
_LEADING_HEADERS = (b"tree", b"parent", b"author", b"committer")


def parse_commit(name: str, data: bytes) -> Commit:
    """Raises ValueError, which says what is wrong with it."""
    head, gap, message = data.partition(b"\n\n")
    if not gap:
        raise ValueError("it has no end of its headers")
    headers = _parse_headers(head)
    parents = 0
    while parents + 1 < len(headers) and headers[parents + 1][0] == b"parent":
        parents += 1
    order = [key for key, _ in headers[: parents + 3]]
    if order != [b"tree", *[b"parent"] * parents, b"author", b"committer"]:
        raise ValueError("its headers are not those of a commit")
    rest = headers[parents + 3 :]
    if any(key in _LEADING_HEADERS for key, _ in rest):
        raise ValueError("it has a header twice")
    signatures = [(key, value) for key, value in rest if key in _SIGNATURE_HEADERS.values()]
    if len(signatures) > 1 or any(key != _SIGNATURE_HEADERS[len(name)] for key, _ in signatures):
        raise ValueError("it has more than one signature")
    signed = b"\n".join(
        key + b" " + value for key, value in headers if key not in _SIGNATURE_HEADERS.values()
    )
    return Commit(
        name=name,
        tree=headers[0][1].decode("ascii"),
        parents=tuple(value.decode("ascii") for _, value in headers[1 : parents + 1]),
        author=_parse_email(headers[parents + 1][1]),
        committer=_parse_email(headers[parents + 2][1]),
        signature=signatures[0][1].replace(b"\n ", b"\n") if signatures else b"",
        signed=signed + gap + message,
    )


def _parse_headers(head: bytes) -> list[tuple[bytes, bytes]]:
    """Key and value, with the further lines as they stand."""
    found: list[tuple[bytes, bytes]] = []
    for line in head.split(b"\n"):
        if line.startswith(b" ") and found:
            key, value = found[-1]
            found[-1] = (key, value + b"\n" + line)
            continue
        key, space, value = line.partition(b" ")
        if not key or not space:
            raise ValueError("it has a header without a value")
        found.append((key, value))
    return found


def _parse_email(person: bytes) -> str:
    match = _PERSON.fullmatch(person)
    try:
        mail = match.group(1).decode("utf-8") if match else ""
    except UnicodeDecodeError:
        mail = ""
    if not mail or not mail.isprintable() or " " in mail:
        raise ValueError("its author or committer has no readable e-mail address")
    return mail
