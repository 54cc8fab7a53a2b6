"""One thing, one place: packages and kernel settings that a section of its own decides stand nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec

_PACKAGES: tuple[tuple[str, str], ...] = (
    (r"(lib)?nvidia-container[-\w]*", "nvidia_container_toolkit"),
    (r"(cuda-drivers-|nvidia-)fabric-?manager.*", "nvidia_fabricmanager"),
    (r"nvidia-(fs|gds).*|gds-tools.*|libcufile.*", "gds"),
    (
        r"cuda-drivers.*|nvidia-(open|driver|dkms|kernel|headless|utils|persistenced|settings|imex).*"
        r"|kmod-nvidia.*|libnvidia-.*",
        "nvidia_driver",
    ),
    (r"docker-ce.*|docker\.io|containerd(\.io)?", "docker"),
    (r"mlnx-ofed.*|doca-.*|rdma-core", "rdma"),
    (r"datacenter-gpu-manager.*|prometheus-node-exporter", "monitoring"),
)
"""Names of packages → the role that sets their versions, the first that matches."""
_SYSCTLS = {"kernel.numa_balancing": "numa_balancing", "vm.nr_hugepages": "huge_pages"}


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """What is set in a section of its own and once more as a package or kernel setting."""
    base, client = spec.base, spec.storage_client
    if base is not None:
        yield from _package_rules(spec, tuple(base.packages), ("spec", "base", "packages"))
        yield from _setting_rules(spec)
    if client is not None:
        yield from _package_rules(spec, tuple(client.packages), ("spec", "storageClient", "packages"))


def _package_rules(spec: NodeProfileSpec, names: tuple[str, ...], at: Loc) -> Iterator[Issue]:
    kernel = spec.base is not None and spec.base.kernel is not None
    for name in names:
        role = next((role for pattern, role in _PACKAGES if re.fullmatch(pattern, name)), "")
        if role and getattr(spec, role) is not None:
            yield _duplicate_issue((*at, name), name, _section(role))
        elif kernel and re.fullmatch(r"linux-(image|headers)-.*|kernel(-core|-devel)?", name):
            yield _duplicate_issue((*at, name), name, "base.kernel")


def _setting_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    for name, field in _SYSCTLS.items():
        if spec.base and name in spec.base.sysctls and getattr(spec.base, field) not in (None, ()):
            yield _duplicate_issue(("spec", "base", "sysctls", name), name, f"base.{_section(field)}")


def _section(role: str) -> str:
    field = NodeProfileSpec.model_fields.get(role)
    alias = field.alias if field is not None else None
    return alias or re.sub(r"_(\w)", lambda found: found[1].upper(), role)


def _duplicate_issue(at: Loc, name: str, section: str) -> Issue:
    message = f"{name} is set by {section}, and once more here"
    return Issue(at, message, "leave it out here", "BAI-V075", key=True)
