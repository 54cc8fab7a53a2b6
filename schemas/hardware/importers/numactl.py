"""`numactl -H`: nodes, CPUs, memory, distances. Long lines may have been wrapped by a terminal or by mail."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from schemas.hardware.cpulist import MAX_CPU, format_cpus, parse_cpus
from schemas.hardware.importers.facts import Facts, UnreadableCapture

_HIGHEST_NODE = 4095
_AVAILABLE = re.compile(r"available: ([0-9]{1,4}) nodes? \(([0-9,-]{0,4000})\)\s*\Z")
_CPUS = re.compile(r"\s*node ([0-9]{1,9}) cpus:(.*)\Z")
_SIZE = re.compile(r"\s*node ([0-9]{1,9}) size:\s+([0-9]{1,12}) MB")
_COLUMNS = re.compile(r"\s*node((?:\s+[0-9]{1,4})+)\s*\Z")
_ROW = re.compile(r"\s*([0-9]{1,4}):((?:\s+[0-9]{1,5})+)\s*\Z")
_MORE = re.compile(r"[0-9 \t]*[0-9][0-9 \t]*\Z")
_SAVE = "save it anew: numactl -H > numactl.txt"


@dataclass
class _Listing:
    """The lines of `numactl -H`, each with what was wrapped from it."""

    counted: tuple[int, tuple[int, ...]] | None = None
    """How many nodes there are, and which, by the first line."""
    cpus: dict[int, list[str]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    rows: dict[int, list[str]] = field(default_factory=dict)


def read_numactl(text: str) -> Facts:
    """Raises UnreadableCapture for CPUs that cannot be, or that two nodes have."""
    listing = _read_listing(text)
    if not listing.cpus:
        raise UnreadableCapture("no line 'node N cpus: …' of numactl -H", hint=_SAVE)
    facts = Facts("numactl -H", all_nodes=True)
    owners: dict[int, int] = {}
    for number, words in listing.cpus.items():
        if not _ascends(words):
            raise UnreadableCapture(
                f"the CPUs of node {number} do not ascend: the line was cut",
                listing.lines[number],
                hint=_SAVE,
            )
        cpus = {int(word) for word in words}
        twice = sorted(cpu for cpu in cpus if cpu in owners)
        if twice:
            raise UnreadableCapture(
                f"CPU {twice[0]} is of NUMA node {owners[twice[0]]}, and of node {number} here",
                listing.lines[number],
                hint=_SAVE,
            )
        owners.update(dict.fromkeys(cpus, number))
        facts.node(number).cpus = tuple(sorted(cpus))
    for number, size in listing.sizes.items():
        facts.node(number).memory = size
    _add_distances(facts, listing)
    _require_all_nodes(facts, listing)
    return facts


def _read_listing(text: str) -> _Listing:
    listing = _Listing()
    words: list[str] | None = None
    before, of_cpus = "", False
    for at, line in enumerate(text.splitlines(), start=1):
        if words is not None and _MORE.match(line):
            _append_wrapped(words, before, line, at, of_cpus=of_cpus)
        elif found := _CPUS.match(line):
            words, of_cpus = _new_node(listing, found, at), True
        else:
            words, of_cpus = _read_other(listing, line, at), False
        before = line
    return listing


def _read_other(listing: _Listing, line: str, at: int) -> list[str] | None:
    """Any other line; gives the words that the next line may go on with."""
    if found := _SIZE.match(line):
        listing.sizes[_parse_node(found, at)] = int(found[2]) << 20
    elif found := _AVAILABLE.match(line):
        try:
            listing.counted = int(found[1]), parse_cpus(found[2])
        except ValueError as error:
            raise UnreadableCapture(str(error), at, found.start(2) + 1, _SAVE) from None
    elif found := _COLUMNS.match(line):
        listing.columns = found[1].split()
        return listing.columns
    elif found := _ROW.match(line):
        listing.rows[int(found[1])] = words = found[2].split()
        return words
    return None


def _new_node(listing: _Listing, found: re.Match[str], at: int) -> list[str]:
    number = _parse_node(found, at)
    for word in re.finditer(r"\S+", found[2]):
        _require_cpu(word[0], at, found.start(2) + word.start() + 1)
    if number in listing.cpus:
        raise UnreadableCapture(
            f"NUMA node {number} stands in line {listing.lines[number]} already",
            at,
            hint="save each machine in a file of its own",
        )
    listing.cpus[number], listing.lines[number] = found[2].split(), at
    return listing.cpus[number]


def _parse_node(found: re.Match[str], line: int) -> int:
    if int(found[1]) > _HIGHEST_NODE:
        raise UnreadableCapture(f"NUMA node {found[1]} is out of range", line, found.start(1) + 1)
    return int(found[1])


def _require_cpu(word: str, line: int, column: int) -> None:
    if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) > MAX_CPU:
        raise UnreadableCapture(
            f"{word[:40]!r} is not a CPU number up to {MAX_CPU}", line, column, "a list such as 0 1 2 3"
        )


def _append_wrapped(words: list[str], before: str, line: str, at: int, *, of_cpus: bool) -> None:
    """What was wrapped from the line before. A number may have been parted, too: of CPUs, which ascend, it
    can mostly be told."""
    more = line.split()
    parted = before[-1:].isdecimal() and line[:1].isdecimal() and bool(words)
    if not of_cpus:
        words += more
        return
    fold = words[-2:]
    choices = [[*fold, *more]]
    if parted:
        choices.append([*fold[:-1], fold[-1] + more[0], *more[1:]])
    good = [choice for choice in choices if _ascends(choice)]
    if len(good) > 1:
        in_turn = [choice for choice in good if _goes_on(choice, len(fold))]
        good = in_turn if len(in_turn) == 1 else good
    if len(good) != 1:
        raise UnreadableCapture(
            f"the line above was wrapped, and which CPUs it had cannot be told at {more[0][:40]!r}",
            at,
            line.index(more[0]) + 1,
            _SAVE,
        )
    words[len(words) - len(fold) :] = good[0]


def _ascends(words: list[str]) -> bool:
    if any(len(word) > 5 or int(word) > MAX_CPU for word in words):
        return False
    numbers = [int(word) for word in words]
    return all(a < b for a, b in itertools.pairwise(numbers))


def _goes_on(words: list[str], known: int) -> bool:
    """Whether the number at the fold follows the one before it."""
    at = known if len(words) > known and int(words[known]) == int(words[known - 1]) + 1 else known - 1
    return at > 0 and int(words[at]) == int(words[at - 1]) + 1


def _add_distances(facts: Facts, listing: _Listing) -> None:
    columns = [int(word) for word in listing.columns]
    given = 0
    for number, words in listing.rows.items():
        if len(words) == len(columns) and number in facts.nodes:
            row = zip(columns, map(int, words), strict=True)
            facts.node(number).distances = {other: value for other, value in row if other != number}
            given += 1
    if len(facts.nodes) > 1 and given < len(facts.nodes):
        facts.notes.append("NUMA distances of some nodes: the capture of numactl -H ends early")


def _require_all_nodes(facts: Facts, listing: _Listing) -> None:
    """The first line counts the nodes: those that are not in the capture are unknown."""
    if listing.counted is None:
        return
    count, numbers = listing.counted
    extra = sorted(set(listing.cpus) - set(numbers))
    if count != len(numbers) or extra:
        raise UnreadableCapture(
            f"{count} nodes are said to be available ({format_cpus(numbers)}), but there are lines of "
            f"nodes {format_cpus(listing.cpus)}",
            hint="save each machine in a file of its own",
        )
    missing = set(numbers) - set(listing.cpus)
    if missing:
        facts.all_nodes = False
        facts.notes.append(
            f"NUMA nodes {format_cpus(missing)}: numactl -H counts {count} nodes, and their lines are cut off"
        )
