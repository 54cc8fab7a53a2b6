"""Running modules of this package on a node that has nothing but Python 3.8 or newer.

Their sources travel with the request over standard input; a few lines of bootstrap make modules of them. One
call is one command on the node, however many things it asks for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.machines.base import Machine, Process

BOOT = """
import json, sys, types
order = json.load(sys.stdin)
for name, source in order["modules"]:
    module = types.ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
json.dump(sys.modules[order["main"]].serve(order["request"]), sys.stdout)
"""

BOOT_STREAM = """
import json, sys, types
order = json.loads(sys.stdin.buffer.readline())
for name, source in order["modules"]:
    module = types.ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
sys.modules[order["main"]].stream(order["request"], sys.stdin.buffer, sys.stdout.buffer)
sys.stdout.buffer.flush()
"""
"""The same, with more on standard input and bytes as the answer."""


def call_remote(machine: Machine, modules: Sequence[str], request: object, *, timeout: float = 120) -> object:
    """What `serve(request)` of the last of `modules` (in the order of their imports) answers on the machine.

    Both are values of JSON. Raises ProviderError when the machine has no Python or the modules fail there,
    ProviderUnavailable when it cannot be reached.
    """
    order = {"modules": _sources(tuple(modules)), "main": modules[-1], "request": request}
    argv = ("python3", "-I", "-S", "-c", BOOT)
    done = machine.run(argv, stdin=json.dumps(order).encode(), timeout=timeout)
    if done.code == 127:
        raise ProviderError(provider=machine.name, why="python3 is not installed there")
    if done.code:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise ProviderError(provider=machine.name, why=said[-1] if said else f"exit code {done.code}")
    try:
        return _decode_surrogates(json.loads(done.out))
    except (ValueError, RecursionError) as error:
        raise ProviderError(provider=machine.name, why="what it answered is not JSON") from error


def start_remote(machine: Machine, modules: Sequence[str], request: object) -> Process:
    """`stream(request, input, output)` of the last of `modules` on the machine, to be talked to. Raises
    ProviderUnavailable when it cannot be reached; where it has no Python the process says so."""
    order = {"modules": _sources(tuple(modules)), "main": modules[-1], "request": request}
    process = machine.start(("python3", "-I", "-S", "-c", BOOT_STREAM))
    try:
        process.write(json.dumps(order).encode() + b"\n")
    except BaseException:
        process.close()
        raise
    return process


def _decode_surrogates(value: Any) -> Any:
    """With a question mark for each half letter: names of files that are in no encoding are told as such, and
    nothing here could be written down or sent on with them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_decode_surrogates(name): _decode_surrogates(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_decode_surrogates(each) for each in value]
    return value


@cache
def _sources(modules: tuple[str, ...]) -> list[tuple[str, str]]:
    """The modules, each after the (empty) packages it is in."""
    found: dict[str, str] = {}
    for name in modules:
        above = name.split(".")[:-1]
        for depth in range(1, len(above) + 1):
            found.setdefault(".".join(above[:depth]), "")
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(name)
        found[name] = Path(spec.origin).read_text(encoding="utf-8")
    return list(found.items())
