"""How a cluster's `process:` options and the environment become a provider."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from providers.machines.foreign_owners import foreign_owner
from providers.process.provider import ProcessProvider
from providers.process.supervision.records import DEFAULT_LOG, LogRotation
from providers.state_folder import state_folder
from schemas.problems.errors.provider import InvalidOption

if TYPE_CHECKING:
    from providers.machines.base import Endpoint

_BELOW_ETC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
KNOWN_OPTIONS: dict[str, type] = {
    "root": str, "sandbox": bool, "cgroups": bool, "logSize": int, "logFiles": int, "hami": str,
    "etc": list,
}  # fmt: skip


def default_root() -> Path:
    """`$BAI_PROCESS_ROOT`, else /var/lib/bai/process for root, else the user's state folder."""
    if chosen := os.environ.get("BAI_PROCESS_ROOT"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/bai/process")
    return state_folder() / "process"


def open_process(
    options: Mapping[str, object], *, state_root: Path | None = None, machines: Sequence[Endpoint] = ()
) -> ProcessProvider:
    """The entry point; it runs on this machine whatever the nodes are. Raises InvalidOption."""
    for name, value in options.items():
        _check_type(name, value)
    root = state_root or (Path(str(options["root"])) if "root" in options else default_root())
    if why := foreign_owner(root):
        raise InvalidOption(provider="process", option="stateRoot", why=why)
    return ProcessProvider(
        root,
        sandbox=bool(options.get("sandbox", True)),
        cgroups=bool(options.get("cgroups", True)),
        log=LogRotation(
            _positive_number(options, "logSize", DEFAULT_LOG.size),
            _positive_number(options, "logFiles", DEFAULT_LOG.files),
        ),
        hami=str(options.get("hami", "")),
        etc=_etc_names(options.get("etc", [])),
    )


def _check_type(name: str, value: object) -> None:
    kind = KNOWN_OPTIONS.get(name)
    if kind is None:
        raise InvalidOption(provider="process", option=name, why=f"not one of {', '.join(KNOWN_OPTIONS)}")
    if type(value) is not kind:
        raise InvalidOption(provider="process", option=name, why=f"{value!r} is not of type {kind.__name__}")
    if name in ("root", "hami") and not Path(str(value)).is_absolute():
        raise InvalidOption(provider="process", option=name, why="not an absolute path")


def _etc_names(value: object) -> tuple[str, ...]:
    """Files and folders below /etc."""
    names = value if isinstance(value, list) else []
    for name in names:
        if not isinstance(name, str) or not _BELOW_ETC.fullmatch(name) or ".." in name.split("/"):
            raise InvalidOption(provider="process", option="etc", why=f"{name!r} is not a name below /etc")
    return tuple(names)


def _positive_number(options: Mapping[str, object], name: str, default: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or value <= 0:
        raise InvalidOption(provider="process", option=name, why=f"{value!r} is not a positive number")
    return value
