"""Addresses of files, whose names may be any bytes, and what requests say of them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import HTTPException, Request

LONGEST_PATH = 4096
LONGEST_NAME = 255
"""Bytes of one part of a path, on every file system of Linux."""
_MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class FileQuery:
    """What a request names. `path` is empty for where a session works, and for all of a volume; `name`: of a
    file that comes into the folder `path`."""

    path: str = ""
    kernel: str = ""
    name: str = ""

    @classmethod
    def of(cls, request: Request) -> FileQuery:
        """Answers 400 for what no file can be called."""
        text = request.scope["query_string"].decode("latin-1")
        try:
            fields = parse_qsl(
                text, keep_blank_values=True, errors="surrogateescape", max_num_fields=_MOST_FIELDS
            )
        except ValueError:
            raise HTTPException(400, "this address cannot be read") from None
        asked = dict(fields)
        found = cls(asked.get("path", ""), asked.get("kernel", ""), asked.get("name", ""))
        if len(found.path) > LONGEST_PATH or len(found.kernel) > LONGEST_NAME or "\0" in found.path:
            raise HTTPException(400, "no file can be called so")
        return found

    @property
    def file_path(self) -> str:
        """Of the file that comes. Answers 400 where that would be no name."""
        name = self.name
        wrong = name in ("", ".", "..") or "/" in name or "\0" in name
        if wrong or len(name.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
            raise HTTPException(400, "no file can be called so")
        return join_path(self.path, name)


@dataclass(frozen=True, slots=True)
class FilesAddress:
    """Where the files of one thing are: `parts` of its address, and the container."""

    parts: tuple[str, ...]
    kernel: str = ""

    def href(self, action: str = "", path: str = "", **more: str) -> str:
        """`action`: empty for a folder, `content` or `archive`."""
        parts = (*self.parts, "files", *filter(None, (action,)))
        where = "/".join(quote(part, safe="") for part in parts)
        asked = {"path": path, "kernel": self.kernel, **more}
        query = urlencode({key: text for key, text in asked.items() if text}, errors="surrogateescape")
        return f"/{where}?{query}" if query else f"/{where}"


def join_path(folder: str, name: str) -> str:
    return name if not folder else f"{folder.rstrip('/')}/{name}"


def shown(text: str) -> str:
    """With bytes that are no letters as `\\xff`: what is shown and written down is text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def attachment(name: str) -> str:
    """The Content-Disposition (RFC 6266) of what is kept under a name, whatever that is."""
    plain = "".join(letter if letter.isprintable() and letter not in '/\\"' else "_" for letter in name)
    plain = plain.lstrip(".") or "file"  # What begins with a dot is hidden where it is kept.
    simple = "".join(letter if letter.isascii() and letter != "%" else "_" for letter in plain)
    return f"attachment; filename=\"{simple}\"; filename*=UTF-8''{quote(plain, safe='')}"
