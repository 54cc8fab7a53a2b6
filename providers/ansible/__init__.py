"""Nodes brought to what their profiles say, with Ansible and the roles of this repository.

Read `provisioner.py` (the seam's three verbs), `files.py` (what a run is given: inventory, ssh and Ansible
configuration), `run.py` (one run), `guard.py` (nothing of it outlives bai), `events.py` (what it tells),
`artefacts.py` (what is kept of it) and `node_lock.py` (one provisioning per node at a time). Ansible itself
is only imported, by way of its runner, when something runs. In its own process run `strategies` (which tasks
have a process) and `compiled_templates.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.provisioning import Provisioner


def roles_path() -> Path:
    """The roles: of the working copy, or as the wheel carries them."""
    carried = Path(__file__).resolve().parent / "roles"
    return carried if carried.is_dir() else Path(__file__).resolve().parents[2] / "roles"


def open_provisioner(
    state_root: Path,
    resolve: Callable[[str], str],
    *,
    roles: Path | None = None,
    forks: int = 50,
) -> Provisioner:
    """`state_root`: below it, in `runs/`, the last runs are kept; `resolve`: the value behind a secret's
    reference; `roles`: other roles than bai's own, with their `site.yml`."""
    from providers.ansible.provisioner import AnsibleProvisioner

    return AnsibleProvisioner(state_root, resolve, roles=roles or roles_path(), forks=forks)
