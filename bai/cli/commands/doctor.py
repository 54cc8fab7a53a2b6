"""`bai doctor`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import How
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from bai.cli.doctor.check import Check, Finding

app = new_app()
STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@app.command()
def doctor(
    ctx: typer.Context,
    format: How = Format.text,
) -> None:
    """Check this machine and repository; `ok` means checked. Exits with 1 when something needed is broken."""
    from bai.cli.doctor.check import run

    settings = settings_of(ctx)
    found = run(_checks(settings))
    if format is Format.json:
        import dataclasses

        from bai.cli.output import print_json

        print_json("bai.cli.doctor/v1", findings=[dataclasses.asdict(finding) for finding in found])
    else:
        _print(settings, found)
    if any(finding.status == "failed" for finding in found):
        raise typer.Exit(1)


def _checks(settings: Settings) -> list[tuple[str, Check]]:
    from bai.cli.doctor import machine, networks, nodes, provider, repository, storage

    return [
        ("python", machine.python),
        ("system", machine.system),
        ("git", machine.git),
        ("probe", machine.probe),
        ("nvml", machine.nvml),
        ("bubblewrap", machine.bubblewrap),
        ("user manager", machine.user_manager),
        ("sessions here", partial(provider.checks, settings)),
        ("documents", partial(repository.documents, settings)),
        ("nodes", partial(nodes.nodes, settings)),
        ("overlay", partial(networks.networks, settings)),
        ("volumes", partial(storage.volumes, settings)),
        ("parts of GPUs", partial(storage.fractions, settings)),
        ("store", partial(repository.store, settings)),
        ("disks", partial(repository.disks, settings)),
        ("schemas", repository.schemas),
    ]


def _print(settings: Settings, found: list[Finding]) -> None:
    from collections import Counter

    from rich.text import Text

    from bai.cli.output import show
    from bai.render.humanize import clean

    width = max(len(finding.name) for finding in found)
    for finding in found:
        line = Text(f"{finding.status:8} ", STYLES[finding.status]).append(finding.name.ljust(width), "bold")
        line.append(f"  {clean(finding.message)}", "not bold default")
        show(settings, line, wrap=False)
        if finding.hint:
            show(settings, Text(f"{'':8} {'':{width}}  {clean(finding.hint)}", "dim"), wrap=False)
    counts: Counter[str] = Counter(finding.status for finding in found)
    parts = [f"{counts[status]} {status}" for status in STYLES if counts[status]]
    show(settings, Text(", ".join(parts)))
