"""Images that differ a little from another: files put into it, and lines of a Dockerfile."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.lab.cache import tool
from tests.lab.docker import IMAGE, Engine


def derived(engine: Engine, name: str, *lines: str, files: dict[str, str] | None = None) -> str:
    """An image made of the lab's. `files`: path → text, or `-> ` and where a link leads; all are root's."""
    reference = f"bai-lab-{name}:1"
    engine.docker("create", "--name", "derive", IMAGE, "true")
    try:
        for path, text in (files or {}).items():
            subprocess.run(
                [tool("docker"), "-H", f"unix://{engine.socket}", "cp", "-", f"derive:{Path(path).parent}"],
                input=packed(Path(path).name, text), check=True, capture_output=True,
            )  # fmt: skip
        changes = [word for line in lines for word in ("-c", line)]
        engine.docker("commit", *changes, "derive", reference)
    finally:
        engine.docker("rm", "-f", "derive")
    return reference


def ran_in(engine: Engine, name: str, script: str) -> str:
    """An image in which root has run a script."""
    reference = f"bai-lab-{name}:1"
    engine.docker("run", "--name", "derive", IMAGE, "sh", "-c", script)
    engine.docker("commit", "derive", reference)
    engine.docker("rm", "-f", "derive")
    return reference


def packed(name: str, text: str) -> bytes:
    """A tar of one file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        if text.startswith("-> "):
            entry.type, entry.linkname = tarfile.SYMTYPE, text.removeprefix("-> ")
        else:
            entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()
