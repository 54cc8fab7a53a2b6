"""Terraform as the peer of `benchmarks.scale`: as many resources as there are sessions, with as many fields,
in as many files. `terraform_data` needs no provider, so that what is measured is the core alone."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from benchmarks.measured_command import Sample, run_measured

PER_FILE = 10


class Terraform:
    """A working folder with this many resources."""

    def __init__(self, folder: Path, resources: int) -> None:
        self.folder, self.resources = folder, resources
        folder.mkdir(parents=True)
        self._environment = {**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        for first in range(0, resources, PER_FILE):
            numbers = range(first, min(first + PER_FILE, resources))
            (folder / f"sessions{first}.tf").write_text("\n".join(_resource(f"s{at}", 1) for at in numbers))
        self.run("init", "-input=false")

    def run(self, *words: str) -> Sample:
        return run_measured(["terraform", *words, "-no-color"], self.folder, self._environment)

    def apply(self) -> Sample:
        return self.run("apply", "-auto-approve", "-input=false")

    def write_state(self) -> None:
        """The state that `apply` leaves, which takes time with the square: that of one resource, so often."""
        with tempfile.TemporaryDirectory() as folder:
            one = Terraform(Path(folder) / "one", 1)
            one.apply()
            state = json.loads((one.folder / "terraform.tfstate").read_text())
        text = json.dumps(state["resources"][0])
        known = state["resources"][0]["instances"][0]["attributes"]["id"]
        copies = (text.replace(known, str(uuid.uuid4())) for _ in range(self.resources))
        state["resources"] = [json.loads(copy) | {"name": f"s{at}"} for at, copy in enumerate(copies)]
        (self.folder / "terraform.tfstate").write_text(json.dumps(state))

    def plan(self, *, changes: bool = False) -> Sample:
        """Fails where there is something to do and no `changes` are expected."""
        return self.run("plan", "-input=false", *(() if changes else ("-detailed-exitcode",)))

    def change_one(self) -> None:
        """One resource asks for something else."""
        path = self.folder / "sessions0.tf"
        path.write_text(path.read_text().replace('gpus    = "1"', 'gpus    = "2"', 1))


def is_there() -> bool:
    return shutil.which("terraform") is not None


def _resource(name: str, gpus: int) -> str:
    return (
        f'resource "terraform_data" "{name}" {{\n'
        "  input = {\n"
        '    project = "p"\n'
        '    command = "sleep inf"\n'
        '    cpu     = "8"\n'
        '    memory  = "64GiB"\n'
        f'    gpus    = "{gpus}"\n'
        "  }\n}\n"
    )
