"""What one run is given: Ansible's configuration, ssh's, the inventory, and secrets in a file of their own.

Ansible reaches nodes as bai itself does: hosts, ports, users, keys, jump hosts and known hosts are those of
`providers.machines.ssh.route`, and the user's own `~/.ssh/config` counts only through it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from providers.machines.ssh.openssh import ssh_alias, write_private, write_ssh_config
from providers.machines.ssh.route import Route, ssh_route, user_config
from providers.provisioning import ProvisionTarget
from schemas.problems.errors.node import NodeUnreachable

TEMPLATES = Path(__file__).resolve().parent / "templates"
STRATEGIES = TEMPLATES.with_name("strategies")
TASK_TIMEOUT = 3600
"""Seconds for one task: a driver's module may be built on a slow node."""
INVENTORY = "hosts.yml"
SECRETS = "secrets"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The nodes of a run. Made by the provisioner; read where a run's files are written."""

    targets: Sequence[ProvisionTarget]
    routes: Mapping[str, Route]
    """Node → how ssh gets there; none for this machine."""
    secrets: Mapping[str, Mapping[str, str]]
    """Node → variable → value."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(target.node for target in self.targets)

    def limited_to(self, nodes: Collection[str]) -> Inventory:
        """Of these nodes alone; the routes of the others stay, and change nothing."""
        return replace(self, targets=[target for target in self.targets if target.node in nodes])


def ssh_routes(targets: Sequence[ProvisionTarget]) -> tuple[dict[str, Route], dict[str, str]]:
    """Node → how ssh gets there (none for this machine), and node → why that cannot be understood."""
    found: dict[str, Route] = {}
    problems: dict[str, str] = {}
    config = None
    for target in targets:
        if target.endpoint.local:
            continue
        try:
            config = config or user_config()
            found[target.node] = ssh_route(target.endpoint, config)
        except Exception as error:
            why = f"its SSH settings: {error}"
            problems[target.node] = NodeUnreachable(node=target.node, why=why).message
    return found, problems


def write_run_files(folder: Path, scratch: Path, inventory: Inventory, *, roles: Path, forks: int) -> None:
    """Write the inventory into `folder`, which is kept, and what must not be kept into `scratch`."""
    targets, routes = inventory.targets, inventory.routes
    timeout = math.ceil(max((each.timeout for each in routes.values()), default=10))
    hosts = [{"node": t.node, "variables": _variables(t, routes.get(t.node), roles)} for t in targets]
    given: dict[str, dict[str, object]] = {
        "ansible.cfg": {
            "forks": forks, "roles": roles, "scratch": scratch, "timeout": timeout,
            "task_timeout": TASK_TIMEOUT, "strategies": STRATEGIES,
        },
    }  # fmt: skip
    for name, values in given.items():
        write_private(scratch / name, _render(f"{name}.j2", values))
    write_ssh_config(scratch, routes)
    write_private(folder / INVENTORY, _render("hosts.yml.j2", {"hosts": hosts}))
    (scratch / "tmp").mkdir(mode=0o700)
    _write_secrets(scratch / SECRETS, inventory)


def _write_secrets(folder: Path, inventory: Inventory) -> None:
    """A second inventory: what it says about the same hosts is added."""
    folder.mkdir(mode=0o700)
    hosts = [{"node": node, "variables": inventory.secrets.get(node, {})} for node in inventory.nodes]
    write_private(folder / INVENTORY, _render("hosts.yml.j2", {"hosts": hosts}))


def _variables(target: ProvisionTarget, node_route: Route | None, roles: Path) -> dict[str, Any]:
    verified = [role for role in target.roles if (roles / role / "tasks" / "verify.yml").is_file()]
    own: dict[str, Any] = {
        "bai_node": target.node,
        "bai_roles": list(target.roles),
        "bai_verified": verified,
        "bai_os": target.os,
        "bai_local": target.endpoint.local,
        "bai_reboot_allowed": target.reboot_allowed,
        "bai_reboot_timeout": target.reboot_timeout,
    }
    return {**_connection(target, node_route), **own, **target.variables}


_SUDO: Mapping[str, object] = {"ansible_become": True, "ansible_become_method": "sudo"}
"""Said only where it is true: said as false, it would forbid tasks to become somebody else."""


def _connection(target: ProvisionTarget, node_route: Route | None) -> dict[str, Any]:
    if node_route is None:
        become = bool(target.endpoint.ssh.sudo) and os.geteuid() != 0
        return {"ansible_connection": "local", **(_SUDO if become else {})}
    return {
        "ansible_connection": "ssh",
        "ansible_host": ssh_alias(target.node, node_route),
        **(_SUDO if node_route.sudo else {}),
    }


def _render(template: str, values: Mapping[str, object]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["plain"] = _yaml_value
    return environment.get_template(template).render(values)


def _yaml_value(value: Any) -> str:
    """A JSON value on one line of YAML, in which no text is read as a template."""
    import yaml

    if isinstance(value, Mapping):
        # With its question mark: a key without may have 1,024 characters at most.
        items = (f"? {_yaml_value(str(name))} : {_yaml_value(each)}" for name, each in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_yaml_value, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    text: str = yaml.safe_dump(value, default_style='"', width=1 << 30).strip()
    return f"!unsafe {text}" if "{" in value else text
