"""Puts the roles into the wheel, where the provisioner looks for them, and the example that `bai serve
--demo` shows; a working copy has them at its top."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Roles(BuildHookInterface):  # type: ignore[type-arg]
    """Called for every wheel that is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_data["force_include"]["roles"] = "providers/ansible/roles"
            build_data["force_include"]["examples/clusters/dgx-h100"] = "bai/web/demo/dgx-h100"
