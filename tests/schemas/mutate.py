"""Damage a YAML text as people and disks do, deterministically by seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

TOKENS = re.compile(rb"[A-Za-z0-9_.@/-]+|[^A-Za-z0-9_.@/-]")
WORDS = (
    *(
        b"null",
        b"yes",
        b"0755",
        b"1e999",
        b".nan",
        b"-1",
        b"{}",
        b"[]",
        b"[a, [b]]",
        b"{a: 1}",
        b"&a x",
        b"*a",
    ),
    *(
        b"<<: *a",
        b"!!int 5",
        b"!x y",
        b"'",
        b'"',
        b"|",
        b">",
        b"? ",
        b"- ",
        b": ",
        b"#",
        b"---",
        b"...",
        b"\t",
    ),
    *(
        b"%YAML 1.1",
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xae",
        b"\\u0000",
        b"\r",
        b"@",
    ),
    *(
        b"[" * 100,
        b"9" * 50,
        b"a" * 5000,
        b"16",
        b"0.5",
        b"500m",
        b"64GiB",
        b"../..",
        b"Session/a/b",
        b"true",
    ),
    *(b"2026-12-01", b"\xc2\x85", b"`", b""),
)


def truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def swap_tokens(rng: random.Random, data: bytes) -> bytes:
    tokens = TOKENS.findall(data)
    one, two = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return b"".join(tokens)


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([*WORDS, bytes([rng.randrange(256)])]) + data[at:]


def replace_token(rng: random.Random, data: bytes) -> bytes:
    tokens = TOKENS.findall(data)
    tokens[rng.randrange(len(tokens))] = rng.choice(WORDS)
    return b"".join(tokens)


def delete(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 10) :]


def duplicate_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return b"\n".join(lines)


def move_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
    return b"\n".join(lines)


def indent(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = lines[at][1:] if rng.random() < 0.5 else b" " * rng.randint(1, 4) + lines[at]
    return b"\n".join(lines)


def retype(rng: random.Random, data: bytes) -> bytes:
    """Something else where a value stands."""
    values = list(re.finditer(rb"(?<=: )[^\n]+", data))
    if not values:
        return data
    value = rng.choice(values)
    return data[: value.start()] + rng.choice(WORDS) + data[value.end() :]


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    truncate,
    swap_tokens,
    insert,
    replace_token,
    delete,
    duplicate_line,
    move_line,
    indent,
    retype,
)


def mutated(seed: int, texts: list[bytes]) -> bytes:
    """One of the texts with one to three mistakes."""
    rng = random.Random(seed)
    data = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(rng, data) or b"\n"
    return data
