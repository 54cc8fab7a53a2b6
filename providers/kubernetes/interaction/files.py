"""Folders of a kernel's container, and new files in them, by the shell of its image: Kubernetes has no other
way in. Sizes and times need `stat`, which all but the barest images have beside a shell.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator

from providers.containers import failed_start
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.interaction.channels import STDOUT
from providers.kubernetes.interaction.container_state import require_running
from providers.kubernetes.interaction.execute import BEGIN, BEGIN_AND_DRAIN, begin_exec, parse_outcome
from providers.kubernetes.interaction.feeder import Feeder
from providers.kubernetes.objects.names import PodRef
from providers.machines import tar_command
from providers.machines.folder_listing import FileEntry, FileKind, FolderListing
from providers.machines.folder_view import PREFIX
from schemas.problems.errors.kernel import FilesRefused

LARGEST = 64 * 2**20
"""Bytes of an answer: whoever gives it may be anybody."""
LIST = """unset CDPATH
cd -- "$1" || exit 1
[ -r . ] || { echo "it cannot be read" >&2; exit 1; }
count=0
for name in * .[!.]* ..?*; do
    [ -e "$name" ] || [ -L "$name" ] || continue
    count=$((count + 1))
    [ "$count" -le "$2" ] || continue
    about=$(stat -c '%f %s %Y' -- "./$name" 2>/dev/null)
    if [ -L "$name" ]; then kind=link
    elif [ -d "$name" ]; then kind=folder
    elif [ -f "$name" ]; then kind=file
    else kind=other
    fi
    printf '%s %s\\0%s\\0' "$kind" "$about" "$name"
done
printf '%s\\0' "$count"
"""
"""What is in a folder, each with kind, mode, size and time, and how many that are."""
WRITE = """unset CDPATH
cd -- "$1" || exit 1
[ ! -d "./$3" ] || { echo "it is a folder" >&2; exit 1; }
trap 'rm -f "$2"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$2" || exit 1
[ "$(wc -c <"$2")" -eq "$4" ] || { echo "it did not come whole" >&2; exit 1; }
mv -f "$2" "./$3"
"""
"""From standard input beside the file that it is to be, whose place it takes when it is whole."""


def list_files(client: ApiClient, pod: PodRef, path: str, most: int) -> FolderListing:
    """Raises FilesRefused, NotRunning, ProviderError."""
    answer = _run_shell(client, pod, path, (LIST, "sh", _place(path), str(most)), None)
    *fields, count, _ = [*answer.split(b"\0")] if answer.count(b"\0") % 2 else [b"", b"", b""]
    try:
        entries = [_parse_entry(fields[at], fields[at + 1]) for at in range(0, len(fields), 2)]
        return FolderListing(tuple(sorted(entries, key=lambda each: os.fsencode(each.name))), int(count))
    except (ValueError, LookupError) as error:
        raise _refusal(pod, path, "what it answered is no list of files") from error


def _parse_entry(about: bytes, name: bytes) -> FileEntry:
    """Raises ValueError, LookupError."""
    word, *numbers = about.decode("ascii").split()
    kinds: dict[str, FileKind] = {"file": "file", "folder": "folder", "link": "link", "other": "other"}
    kind = kinds[word]
    if len(numbers) != 3:
        return FileEntry(os.fsdecode(name), kind)
    whole = stat.S_ISREG(int(numbers[0], 16))
    return FileEntry(os.fsdecode(name), kind, int(numbers[1]) if whole else None, float(numbers[2]))


def write_file(client: ApiClient, pod: PodRef, path: str, size: int, data: Iterator[bytes]) -> None:
    """Raises the same, and what `data` raises."""
    folder, name = posixpath.split(_place(path))
    if name in ("", ".", ".."):
        raise _refusal(pod, path, "that is no name of a file")
    words = (WRITE, "sh", folder, PREFIX + os.urandom(8).hex(), name, str(size))
    _run_shell(client, pod, path, words, data)


def _place(path: str) -> str:
    return path if path.startswith("/") else f"./{path}"


def _run_shell(
    client: ApiClient, pod: PodRef, path: str, words: tuple[str, ...], data: Iterator[bytes] | None
) -> bytes:
    if "\0" in path:
        raise _refusal(pod, repr(path), "a NUL byte is no name")
    if not path.isascii() and path.encode("utf-8", "ignore").decode() != path:
        raise _refusal(pod, path, "Kubernetes cannot be told a name that is not UTF-8")
    typed = data is not None
    with api_errors(pod.name):
        require_running(client, pod)
        begin = BEGIN_AND_DRAIN if typed else BEGIN
        command = begin_exec(client, pod, ("sh", "-c", *words), typed=typed, tty=False, begin=begin)
    said, complaint = b"", b""
    with contextlib.closing(command):
        feeder = Feeder(command, data) if data is not None else None
        if feeder is not None:
            feeder.start()
        for number, piece in command.output():
            if number == STDOUT and len(said) < LARGEST:
                said += piece
            elif number != STDOUT:
                complaint = (complaint + piece)[: tar_command.LONGEST_COMPLAINT]
        if feeder is not None:
            feeder.finish()
    outcome = parse_outcome(command.channels.status)
    if outcome.code is None or outcome.code == failed_start.NOT_FOUND:
        raise _refusal(pod, path, "its image has no shell, which looks there")
    if outcome.code != 0:
        raise _refusal(pod, path, tar_command.first_complaint(complaint, outcome.code))
    return said


def _refusal(pod: PodRef, path: str, why: str) -> FilesRefused:
    return FilesRefused(provider=NAME, kernel=pod.name, path=path, why=why)
