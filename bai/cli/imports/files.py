"""Documents of an import as files: texts that mean exactly them, and are checked before anything is there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from schemas.files.sources import SUFFIXES
from schemas.files.yaml_scalars import ScalarError, parse_scalar
from schemas.problems.errors.command import AlreadyThere, CommandError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

Document = Mapping[str, Any]
FIRST = "cluster.yaml"
"""Where this is, an import was begun."""
_ELSEWHERE = "choose an empty directory: what is there is never merged"


class _Dumper(yaml.CSafeDumper):
    """Texts that a reader of YAML could take for anything else stand in quotes, and so does all that no
    terminal should see as it is."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _is_plain(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    try:
        return text.isascii() and text.isprintable() and parse_scalar(text) == text
    except ScalarError:
        return False


_Dumper.add_representer(str, _represent_text)


def dump_documents(documents: Iterable[Document]) -> str:
    """Block style, in the order given."""
    texts = (
        yaml.dump(dict(each), Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=100)
        for each in documents
    )
    return "---\n".join(texts)


def invalid_files(files: Mapping[str, str]) -> dict[str, str]:
    """File → the first thing that is wrong in it, were they a repository. Nothing is left of the trial."""
    from schemas.loading.loader import load_directory

    with tempfile.TemporaryDirectory(prefix="bai-import-") as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        try:
            load_directory(folder)
        except InvalidRepository as error:
            found: dict[str, str] = {}
            for problem in error.problems:
                found.setdefault(problem.place.file, problem.message)
            return found
    return {}


def new_files(root: Path, files: Mapping[str, str]) -> list[str]:
    """The names of those that are to be written; one that is there with this very text is not. Raises
    AlreadyThere where a text is another one, or documents of another repository are there, CannotRead, and
    CommandError where a link leads out of the folder."""
    if root.exists() and not root.is_dir():
        raise CannotRead(what=root, why="it is not a directory")
    real, missing = root.resolve(), []
    others = sorted(path for end in SUFFIXES for path in root.glob(f"*{end}") if path.name not in files)
    if others and not (root / FIRST).exists():
        raise AlreadyThere(path=others[0], hint=_ELSEWHERE)
    for name, text in files.items():
        path = root / name
        if not path.resolve().is_relative_to(real):
            raise CommandError(why=f"{path} is a link that leads out of {root}", hint="choose another folder")
        if not path.exists():
            missing.append(name)
        elif not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text:
            raise AlreadyThere(path=path, hint=_ELSEWHERE)
    return missing


def write_files(root: Path, files: Mapping[str, str], names: Sequence[str]) -> None:
    """Raises OSError."""
    from schemas.files.atomic_files import write_atomically

    for name in names:
        write_atomically(root / name, files[name])
