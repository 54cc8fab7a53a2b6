"""Global options may stand anywhere on the line: they are moved before the command, where Typer expects them.

Nothing after `--` is touched, nor anything that belongs to the program in `bai exec SESSION PROGRAM...`.
"""

from __future__ import annotations

from collections.abc import Sequence

VALUED = frozenset(
    {"--directory", "-C", "--cluster", "--context", "--state", "--revision", "--secret-stores", "--trust"}
)
FLAGS = frozenset({"--no-color", "--verbose", "--version"})


def move_global_options_first(arguments: Sequence[str]) -> list[str]:
    """The same words with the global options first, in their order."""
    front: list[str] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        if words[0] == "--" or _program_follows(rest):
            break
        word = words.pop(0)
        if word in FLAGS or (
            word.partition("=")[0] in VALUED and "=" in word and not _is_own(word.partition("=")[0], rest)
        ):
            front.append(word)
        elif _is_own(word, rest):
            rest += [word, *words[:1]]
            words = words[1:]
        elif word in VALUED:
            front += [word, *words[:1]]
            words = words[1:]
        else:
            rest.append(word)
    return front + rest + words


def _is_own(option: str, rest: Sequence[str]) -> bool:
    """Whether the command has an option of its own that is called like a global one: a kubeconfig, too, has
    contexts."""
    return option == "--context" and rest[:1] == ["import"]


def _program_follows(rest: Sequence[str]) -> bool:
    """Whether what follows belongs to a program run by `exec`."""
    return rest[:1] == ["exec"] and any(not word.startswith("-") for word in rest[1:])
