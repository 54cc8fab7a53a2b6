"""Files in and out of a kernel's container, as tar streams that its own `tar` makes and unpacks, as its own
user, in its own view: what it sends is checked by whoever unpacks it, as it comes from a stranger.

A container that has ended has no files any more that could be asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from providers.containers import failed_start
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.interaction.channels import STDOUT
from providers.kubernetes.interaction.container_state import require_running
from providers.kubernetes.interaction.execute import (
    BEGIN,
    BEGIN_AND_DRAIN,
    ExecCommand,
    begin_exec,
    parse_outcome,
)
from providers.kubernetes.interaction.feeder import Feeder
from providers.kubernetes.objects.names import PodRef
from providers.machines import tar_command
from schemas.problems.errors.kernel import CopyRefused


def copy_out(client: ApiClient, pod: PodRef, path: str) -> Iterator[bytes]:
    """A tar stream of a file or folder. Raises CopyRefused, NotRunning and ProviderError, with the first
    chunk or later."""
    command = _begin_tar(client, pod, path, tar_command.pack_command(_place(path)), typed=False)
    with contextlib.closing(command):
        complaint = b""
        for number, data in command.output():
            if number == STDOUT:
                yield data
            else:
                complaint = (complaint + data)[: tar_command.LONGEST_COMPLAINT]
    _require_success(command, pod, path, complaint)


def copy_in(client: ApiClient, pod: PodRef, path: str, archive: Iterator[bytes]) -> None:
    """Unpack in the existing folder `path`; what is unpacked belongs to the container's user.

    Raises CopyRefused, NotRunning, ProviderError, and what `archive` raises.
    """
    command = _begin_tar(client, pod, path, tar_command.unpack_command(_place(path)), typed=True)
    complaint = b""
    with contextlib.closing(command):
        feeder = Feeder(command, archive)
        feeder.start()
        for _, data in command.output():
            complaint = (complaint + data)[: tar_command.LONGEST_COMPLAINT]
        feeder.finish()
    _require_success(command, pod, path, complaint)


def _place(path: str) -> str:
    """Relative paths begin in the working directory, where commands do."""
    return path if path.startswith("/") else f"./{path}"


def _begin_tar(
    client: ApiClient, pod: PodRef, path: str, argv: tuple[str, ...], *, typed: bool
) -> ExecCommand:
    """Raises CopyRefused, NotRunning, ProviderError."""
    if "\0" in path:
        raise CopyRefused(provider=NAME, kernel=pod.name, path=repr(path), why="a NUL byte is no name")
    with api_errors(pod.name):
        require_running(client, pod)
        return begin_exec(
            client, pod, argv, typed=typed, tty=False, begin=BEGIN_AND_DRAIN if typed else BEGIN
        )


def _require_success(command: ExecCommand, pod: PodRef, path: str, complaint: bytes) -> None:
    outcome = parse_outcome(command.channels.status)
    if outcome.code is None or outcome.code == failed_start.NOT_FOUND:
        why = "its image has no tar, which packs and unpacks there"
        raise CopyRefused(provider=NAME, kernel=pod.name, path=path, why=why)
    if outcome.code != 0:
        why = tar_command.first_complaint(complaint, outcome.code)
        raise CopyRefused(provider=NAME, kernel=pod.name, path=path, why=why)
