"""`bai doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

if TYPE_CHECKING:
    pass

app = new_app()


@app.command()
def doctor(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """Check this machine and repository; `ok` means checked. Exits with 1 when something needed is broken."""
    from bai.cli.doctor.all_checks import all_checks, print_findings
    from bai.cli.doctor.check import run_checks

    settings = settings_of(ctx)
    found = run_checks(all_checks(settings))
    if format is Format.json:
        import dataclasses

        from bai.cli.output import print_json

        print_json("bai.doctor/v1", findings=[dataclasses.asdict(finding) for finding in found])
    else:
        print_findings(settings, found)
    if any(finding.status == "failed" for finding in found):
        raise typer.Exit(1)
