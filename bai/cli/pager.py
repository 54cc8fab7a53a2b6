"""Long output at a terminal goes through a pager, as git's does: $BAI_PAGER, else $PAGER, else `less`."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bai.cli.output import console, is_terminal, print_renderable
from bai.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

LESS = {"LESS": "FRX", "LV": "-c"}
"""Options for `less` where the user has none: what fits on the screen is only printed, colours are shown, and
the screen is left as it is."""


def print_paged(settings: Settings, renderable: RenderableType, *, pager: bool = True) -> None:
    """Print it; through the pager where a person sees it, unless `pager` is false."""
    command = pager_command(os.environ) if pager and is_terminal(sys.stdout) else []
    if not command:
        print_renderable(settings, renderable)
        return
    screen = console(settings)
    with screen.capture() as captured:
        screen.print(renderable)
    if not _show(command, captured.get()):
        print_renderable(settings, renderable)


def pager_command(environment: Mapping[str, str]) -> list[str]:
    """The pager's words; none where there is none, or where it would only print."""
    text = environment.get("BAI_PAGER", environment.get("PAGER", "less"))
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    return words if words and words != ["cat"] and shutil.which(words[0]) else []


def _show(command: list[str], text: str) -> bool:
    """Whether the pager could be started. Ctrl-C is the pager's until it ends."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**LESS, **os.environ})
    except OSError:
        return False
    written = False
    while True:
        try:
            if not written:
                written = True
                # Who has seen enough closes the pager before it has read everything.
                with contextlib.suppress(OSError):
                    process.communicate(text.encode())
            process.wait()
            return True
        except KeyboardInterrupt:
            continue
