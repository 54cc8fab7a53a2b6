"""Files made for a kernel, which it may read and not write."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from providers.process.linux import files
from providers.process.sandbox.mounts import GIVEN

if TYPE_CHECKING:
    from providers.base import KernelSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def files_problem(spec: KernelSpec) -> str:
    """Why these files cannot be given; empty when they can."""
    bad = [file.name for file in spec.files if not _NAME.fullmatch(file.name)]
    if bad:
        return f"{bad[0]!r} cannot be the name of a file"
    unfit = [file.variable for file in spec.files if not _VARIABLE.fullmatch(file.variable)]
    if unfit:
        return f"{unfit[0]!r} cannot be the name of an environment variable"
    if len({file.name for file in spec.files}) < len(spec.files):
        return "two files of one name"
    return ""


def files_folder(kernel: Path, spec: KernelSpec) -> Path | None:
    """Where they are on the machine; None when there are none."""
    return kernel / "given" if spec.files else None


def write_files(kernel: Path, spec: KernelSpec) -> None:
    """Anew for every attempt; raises OSError."""
    place = files_folder(kernel, spec)
    if place is None:
        return
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o755)
    for file in spec.files:
        files.write_atomically(str(place / file.name), file.content)
        os.chmod(place / file.name, 0o444)


def file_variables(kernel: Path, spec: KernelSpec, *, sandboxed: bool) -> dict[str, str]:
    """Each file's variable with its path, as the kernel sees it."""
    here = GIVEN if sandboxed else kernel / "given"
    return {file.variable: str(here / file.name) for file in spec.files}
