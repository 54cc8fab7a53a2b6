"""All checks of `bai doctor` in their order, and their findings as lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bai.settings import Settings

if TYPE_CHECKING:
    from bai.cli.doctor.check import Check, Finding


STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


def all_checks(settings: Settings) -> list[tuple[str, Check]]:
    from bai.cli.doctor import machine, networks, nodes, provider, repository, setup, storage

    return [
        ("python", machine.python),
        ("system", machine.system),
        ("git", machine.git),
        ("probe", machine.probe),
        ("nvml", machine.nvml),
        ("bubblewrap", machine.bubblewrap),
        ("user manager", machine.user_manager),
        ("sessions here", partial(provider.provider_checks, settings)),
        ("documents", partial(repository.documents, settings)),
        ("provider", partial(setup.setup_checks, settings)),
        ("nodes", partial(nodes.nodes, settings)),
        ("overlay", partial(networks.networks, settings)),
        ("volumes", partial(storage.volumes, settings)),
        ("parts of GPUs", partial(storage.fractions, settings)),
        ("store", partial(repository.store, settings)),
        ("disks", partial(repository.disks, settings)),
        ("schemas", repository.schemas),
    ]


def print_findings(settings: Settings, found: list[Finding]) -> None:
    from collections import Counter

    from rich.text import Text

    from bai.cli.output import print_renderable
    from bai.render.humanize import clean

    width = max(len(finding.name) for finding in found)
    for finding in found:
        line = Text(f"{finding.status:8} ", STYLES[finding.status]).append(finding.name.ljust(width), "bold")
        line.append(f"  {clean(finding.message)}", "not bold default")
        print_renderable(settings, line, wrap=False)
        if finding.hint:
            print_renderable(settings, Text(f"{'':8} {'':{width}}  {clean(finding.hint)}", "dim"), wrap=False)
    counts: Counter[str] = Counter(finding.status for finding in found)
    parts = [f"{counts[status]} {status}" for status in STYLES if counts[status]]
    print_renderable(settings, Text(", ".join(parts)))
