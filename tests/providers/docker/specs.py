"""Specs of kernels for the tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from providers.base import KernelSpec, Labels
from providers.docker.engine.engine import Engine
from providers.machines.base import Stream
from providers.machines.local import LocalMachine
from schemas.kinds.parts.docker import Docker
from tests.lab.docker import IMAGE

LABELS = Labels(
    repo="repo", cluster="lab", resource="Session/p/s", generation=1, digest="d1", kernel="main1", node="n1",
    document='{"kind":"Session"}',
)  # fmt: skip

UID = 1_900_004_242
"""The project's user."""


def kernel(name: str = "s-main1-0-g1", *command: str, node: str = "n1", **fields: Any) -> KernelSpec:
    """A kernel that sleeps, unless told otherwise."""
    labels = fields.pop("labels", replace(LABELS, node=node))
    given = {"image": IMAGE, "env": {}, "hostname": "main1", "uid": UID, **fields}
    return KernelSpec(id=name, labels=labels, command=command or ("sleep", "1000"), **given)


def script(text: str, name: str = "s-main1-0-g1", **fields: Any) -> KernelSpec:
    """A kernel that runs a shell script."""
    return kernel(name, "sh", "-c", text, **fields)


def here(**options: str) -> Engine:
    """This machine as a node whose engine is not asked for anything."""

    def nobody() -> Stream:
        raise AssertionError("the engine was asked")

    def machine() -> LocalMachine:
        return LocalMachine("n1")

    return Engine("n1", Docker.model_validate(options), nobody, machine, local=True)
