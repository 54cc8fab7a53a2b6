"""A directory or a git commit → a `Repository`, or everything that is wrong with it.

The walk: files → plain values (`yaml_reader`) → typed documents (the model of their kind) → hardware read
in, pools expanded → references, rules. Every stage adds to one list of problems.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from schemas.files.sources import Source, SourceFile, mentions_api_version
from schemas.files.yaml_reader import MOST_PROBLEMS, read_documents, too_many_problems
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node, NodePool
from schemas.kinds.session_template import SessionTemplate, Sweep
from schemas.loading.captures import CaptureReader, hardware_file
from schemas.loading.document_cache import DocumentCache
from schemas.loading.documents import Document, claimed_identity
from schemas.loading.draft import Draft, Surroundings, bare_circle, own_issues
from schemas.loading.parsed_file import ParsedDocument, ParsedFile, judge_expanded
from schemas.loading.patterns import ServicePatterns
from schemas.loading.secret_stores import StoreLoader
from schemas.problems.errors.repository import InvalidRepository, NotARepository
from schemas.problems.issues import Issue
from schemas.problems.positions import Positions, path_text
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import printable
from schemas.repository.declared_stores import NO_OWNER, OwnerStores
from schemas.repository.node_ranges import pool_nodes
from schemas.repository.repository import Repository
from schemas.rules.machine_rules import reserved_rules
from schemas.rules.references import dependency_cycle_rules
from schemas.rules.services.template_rules import in_service
from schemas.templates.expansion import TemplateExpander, is_from_template
from schemas.values.envelope import Resource
from schemas.values.resource_ref import ref_of

MOST_IN_ALL = 1000
"""Problems of a repository that are told."""
MOST_FOREIGN = 10
"""Files that are read before one with a document of bai must have come."""
_POSITIONS = 2
"""Files of which the places of all values are kept: they are larger than the files."""
__all__ = ["load", "load_commit", "load_directory"]


def load_directory(
    path: str | os.PathLike[str],
    owner: OwnerStores = NO_OWNER,
    *,
    left_out: Container[str] = (),
    cache: DocumentCache | None = None,
) -> Repository:
    """The repository in a directory, as its files are now; `owner`: the secret stores beside its own;
    `left_out`: files that are not read, as problems name them; `cache`: of this directory, for whoever loads
    it again and again.

    Raises InvalidRepository with every problem, CannotRead without a directory.
    """
    cache = cache or DocumentCache()
    return load(cache.directory(path, left_out), owner, cache)


def load_commit(
    git_dir: str | os.PathLike[str],
    revision: str,
    subpath: str = "",
    owner: OwnerStores = NO_OWNER,
    cache: DocumentCache | None = None,
) -> Repository:
    """The repository at a commit, below `subpath`; nothing is checked out.

    Raises InvalidRepository with every problem, CannotRead without such a repository, commit or folder.
    """
    from schemas.files.git_source import CommitSource

    return load(CommitSource(git_dir, revision, subpath), owner, cache)


def load(
    source: Source,
    owner: OwnerStores = NO_OWNER,
    cache: DocumentCache | None = None,
    draft: Draft | None = None,
) -> Repository:
    """The repository of a source; `draft`: what of it is judged as its author knows it. Raises
    InvalidRepository, CannotRead."""
    known = cache or DocumentCache()
    return known.load(source, owner, lambda recorded: _Loading(recorded, owner, known, draft).run(), draft)


class _Loading:
    """One run: the files, the documents and the problems found so far."""

    def __init__(
        self, source: Source, owner: OwnerStores, cache: DocumentCache, draft: Draft | None = None
    ) -> None:
        self.source, self.cache, self.draft = source, cache, draft
        self.stores, self.patterns = StoreLoader(source, owner), ServicePatterns()
        self.warnings: list[Problem] = []
        self.problems: list[Problem] = []
        self.files: dict[str, bytes] = {}
        self.documents: list[Document] = []
        self.is_foreign = False
        """Whether nothing that was read is a document of bai, and the rest was not read for that."""
        self.is_incomplete = False
        """Whether documents may exist that could not be read at all."""
        self._cached_positions: dict[str, Positions] = {}
        """Of the files that were last asked for."""
        self._last_number: dict[str, int] = {}
        """The number of the last document of a file that counts."""
        self._problem_counts: Counter[str] = Counter()
        self._documents_read: list[ParsedDocument] = []
        self._refused_spots: set[tuple[str, int, int]] = set()

    def run(self) -> Repository:
        self._read_files()
        repository = self._index_documents()
        self._check_rules(repository)
        if self.problems and self.is_foreign:
            raise NotARepository(tuple(sorted(set(self.problems))[:MOST_FOREIGN]), where=self.source.where)
        if self.problems:
            raise InvalidRepository(_limit_problems(self.problems), where=self.source.where)
        sound = [(d, d.resource) for d in self._sound_documents() if d.resource is not None]
        said = ((d, issue) for d, resource in sound for issue in self.patterns.warnings(resource))
        self.warnings += [self._problem(d, issue) for d, issue in said]
        return replace(repository, warnings=tuple(self.warnings), stores=self.stores.declared)

    def _list_files(self) -> list[SourceFile]:
        """All of them; of a folder that begins with many in which nothing is bai's, these, and no more are
        read."""
        files: list[SourceFile] = []
        foreign: list[SourceFile] = []
        following = self.source.files()
        for file in following:
            files.append(file)
            if mentions_api_version(file.data):
                return [*files, *following]
            if file.problem is not None or _holds_anything(file):
                foreign.append(file)
            if len(foreign) == MOST_FOREIGN:
                self.is_foreign = True
                return foreign
        return files

    def _read_files(self) -> None:
        files = self._list_files()
        self.files = {file.path: file.data for file in files if file.problem is None}
        paths = {file.path for file in files}
        parsed = {file.path: self.cache.parse(file) for file in files if file.problem is None}
        values = [(path, one.raw.value) for path, each in parsed.items() for one in each.documents]
        captured = {hardware_file(path, value, paths) for path, value in values}
        captured |= self.stores.encrypted_files(values, paths)
        for file in files:
            if file.path not in captured:
                self._add_file(file, parsed.get(file.path))
            if self._is_full():
                self.is_incomplete = True
                break
        self._parse_documents()

    def _add_file(self, file: SourceFile, parsed: ParsedFile | None) -> None:
        documents = parsed.documents if parsed else ()
        problems = parsed.problems if parsed else (file.problem,) if file.problem else ()
        refused = {(p.place.line, p.place.column) for p in problems}
        self.problems += problems
        self.is_incomplete = self.is_incomplete or bool(
            problems and (not documents or problems[-1].code in _FATAL_CODES)
        )
        found = 0
        for one in documents:
            if one.raw.value is None and one.raw.sound:
                continue
            self._documents_read.append(one)
            self._last_number[file.path] = one.raw.number
            found += 0 if one.kind == "Session" else len(one.typed[1])
            if found > MOST_PROBLEMS:
                self.is_incomplete = True
                break
        self._refused_spots |= {(file.path, *spot) for spot in refused}

    def _parse_documents(self) -> None:
        """Everything typed; what comes from templates once these are known."""
        written = [one for one in self._documents_read if one.kind == "SessionTemplate"]
        templates = [t for one in written if isinstance(t := one.sound_resource(), SessionTemplate)]
        source = TemplateExpander(
            templates, complete=not self.is_incomplete and len(templates) == len(written)
        )
        for one in self._documents_read:
            if not self._has_room(one.path):
                self.is_incomplete = True
            elif is_from_template(one.raw.value):
                made = source.expand_session(one.raw.value)
                self._add_document(one, *judge_expanded(one.raw.value, made))
            elif one.kind == "Service":
                self._add_document(one, *self.patterns.judge(one, source))
            else:
                self._add_document(one, *one.judge())
            if one.kind == "Sweep" and isinstance(sweep := one.sound_resource(), Sweep):
                for made in source.expand_sweep(sweep):
                    self._add_document(one, *judge_expanded({}, made), made=True)

    def _add_document(
        self, one: ParsedDocument, resource: Resource | None, issues: Iterable[Issue], *, made: bool = False
    ) -> None:
        """`made`: it does not stand there itself, so that what is none has no name either."""
        identity = resource.identity if resource else "" if made else claimed_identity(one.raw.value)
        document = Document(one.path, one.raw, identity, resource if one.raw.sound else None)
        self.documents.append(document)
        for issue in issues:
            if not self._has_room(document.file):
                break
            problem = self._problem(document, issue)
            if (one.path, problem.place.line, problem.place.column) not in self._refused_spots:
                self._add_problem(document, problem)

    def _add_problem(self, document: Document, problem: Problem) -> None:
        """Of one file, and of all, only so many: whoever made more by mistake made one mistake."""
        self._problem_counts[document.file] += 1
        if self._problem_counts[document.file] > MOST_PROBLEMS:
            problem = too_many_problems(problem.place)
        self.problems.append(problem)

    def _add_issues(self, document: Document, *issues: Issue) -> None:
        for issue in issues:
            if self._has_room(document.file):
                self._add_problem(document, self._problem(document, issue))

    def _has_room(self, file: str) -> bool:
        """Whether another problem of this file is told, or that there are more."""
        return self._problem_counts[file] <= MOST_PROBLEMS and not self._is_full()

    def _is_full(self) -> bool:
        return len(self.problems) >= MOST_IN_ALL

    def _index_documents(self) -> Repository:
        """The sound documents by identity, machines by theirs; whatever stands twice is a problem."""
        first: dict[str, Document] = {}
        for document in self.documents:
            other = first.setdefault(document.identity, document)
            if document.identity and other is not document:
                message = f"{document.identity} stands twice, first at {other.raw.place}"
                issue = Issue(("metadata", "name"), message, "rename or remove one of the two", "BAI-V042")
                self._add_issues(document, issue)
        sound = {d.identity: d for d in first.values() if d.resource is not None}
        for document, issue in self.stores.declare(sound.values()):
            self.problems.append(self._problem(document, issue))
        resources = {identity: d.resource for identity, d in sorted(sound.items()) if d.resource is not None}
        return self._build_repository(resources, dict(sorted(self._expand_machines(sound.values()))))

    def _expand_machines(self, documents: Iterable[Document]) -> Iterator[tuple[str, Node]]:
        captures = CaptureReader(self.source, self.files, self.cache.captures)
        owner: dict[str, Document] = {}
        for document in sorted(documents, key=lambda d: isinstance(d.resource, NodePool)):
            resource = document.resource
            if not isinstance(resource, Node | NodePool):
                continue
            for node in self._machines_of(resource, self._hardware(document, captures)):
                other = owner.setdefault(node.identity, document)
                if other is not document:
                    message = f"the node '{node.name}' exists already, at {other.raw.place}"
                    issue = Issue(("spec", "namePattern"), message, "name it in exclude", "BAI-V042")
                    self._add_issues(document, issue)
                    break
                yield node.identity, node

    def _machines_of(self, resource: Node | NodePool, hardware: Hardware | None) -> tuple[Node, ...]:
        made_of = (resource, hardware)
        return self.cache.machines.get(resource.identity, made_of, lambda: _machines(*made_of))

    def _hardware(self, document: Document, captures: CaptureReader) -> Hardware | None:
        """The captured hardware of a machine's document, checked against what it reserves."""
        assert isinstance(document.resource, Node | NodePool)
        spec = document.resource.spec
        if spec.hardware_from is None or spec.hardware is not None:
            return None
        found = captures.hardware(document.file, spec.hardware_from)
        issues = list(reserved_rules(spec, found)) if isinstance(found, Hardware) else found
        self._add_issues(document, *issues)
        return found if isinstance(found, Hardware) else None

    def _check_rules(self, repository: Repository) -> None:
        """References and the rules between documents; not judged where what they name may be unreadable."""
        if self.is_incomplete:
            return
        broken = frozenset(d.identity for d in self.documents if d.resource is None)
        kinds = {ref_of(identity).kind for identity in broken}
        around = Surroundings.of(repository, broken, self.cache.other_documents(repository))
        clear = not kinds & {"", "Cluster", "ResourceGroup", "StorageHost", "Domain"}
        places = {
            d.identity: d
            for d in self._sound_documents()
            if repository.resources.get(d.identity) is d.resource
        }
        own = self.draft.surroundings(repository, broken) if self.draft is not None else None
        for document in places.values():
            assert document.resource is not None
            issues = around.issues(document.resource, clear=clear)
            if own is not None and self._is_draft(document):
                issues = own_issues(own.issues(document.resource, clear=clear), issues)
            self._check_secrets(document, document.resource, broken)
            self._add_issues(document, *issues)
            if self._is_full():
                return
        for session, issue in dependency_cycle_rules(repository):
            document = places[session.identity]
            self._add_issues(document, issue if not self._is_draft(document) else bare_circle(issue))

    def _is_draft(self, document: Document) -> bool:
        return self.draft is not None and document.file == self.draft.file

    def _check_secrets(self, document: Document, resource: Resource, broken: frozenset[str]) -> None:
        pattern = self.patterns.of(resource)
        found = self.stores.secret_issues(pattern or resource, broken, granted_alone=self._is_draft(document))
        for issue, unknown in found:
            problem = self._problem(document, in_service(issue) if pattern else issue)
            (self.warnings if unknown else self.problems).append(problem)

    def _sound_documents(self) -> Iterator[Document]:
        return (d for d in self.documents if d.resource is not None)

    def _build_repository(self, resources: dict[str, Resource], machines: dict[str, Node]) -> Repository:
        places = {d.identity: d.raw.place for d in self._sound_documents()}
        patterns = self.patterns.among(resources)
        return Repository(resources, places, machines, self.source.commit, patterns=patterns)

    def _positions_of(self, file: str) -> Positions:
        if file not in self._cached_positions:
            if len(self._cached_positions) >= _POSITIONS:
                del self._cached_positions[next(iter(self._cached_positions))]
            self._cached_positions[file] = Positions(
                printable(file), self.files[file], self._last_number[file] + 1
            )
        return self._cached_positions[file]

    def _problem(self, document: Document, issue: Issue) -> Problem:
        """An issue at its place; positions of a file are worked out at its first issue."""
        positions = self._positions_of(document.file)
        place: SourceLocation = positions.find(document.raw.number, issue.at, key=issue.key)
        hint = issue.hint
        if not hint and issue.type == "string_type" and isinstance(issue.value, int | float):
            written = positions.text(document.raw.number, issue.at)
            hint = f'put it into quotes: "{printable(written)}"' if written else ""
        return Problem(place, issue.code, path_text(issue.at), issue.message, hint)


def _machines(resource: Node | NodePool, hardware: Hardware | None) -> tuple[Node, ...]:
    try:
        nodes = (resource,) if isinstance(resource, Node) else pool_nodes(resource)
    except ValueError:
        return ()  # reported by the rules of the pool
    if hardware is None:
        return nodes
    return tuple(
        n.model_copy(update={"spec": n.spec.model_copy(update={"hardware": hardware})}) for n in nodes
    )


def _holds_anything(file: SourceFile) -> bool:
    raws, problems = read_documents(file.data, printable(file.path))
    return bool(problems) or any(raw.value is not None or not raw.sound for raw in raws)


def _limit_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    """In order, each once; at the end, whether there are more than are told."""
    found = sorted(set(problems))
    if len(problems) < MOST_IN_ALL:
        return tuple(found)
    message = f"more than {MOST_IN_ALL} mistakes; what comes after them was not looked at"
    last = Problem(found[-1].place, "BAI-V018", "", message, "correct the first ones")
    return (*found[: MOST_IN_ALL - 1], last)


_FATAL_CODES = frozenset(
    {
        "BAI-V001",
        "BAI-V002",
        "BAI-V003",
        "BAI-V004",
        "BAI-V005",
        "BAI-V006",
        "BAI-V007",
        "BAI-V009",
        "BAI-V017",
        "BAI-V018",
    }
)
"""Problems after which the rest of a file is not read."""
