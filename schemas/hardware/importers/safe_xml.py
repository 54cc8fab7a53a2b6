"""XML that others wrote: parsed without entities, of bounded size and depth."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from schemas.hardware.importers.facts import UnreadableCapture

_LARGEST = 64 << 20
_DEEPEST = 200
_PROLOG = re.compile(rb"\s*(<\?|<!--|<!DOCTYPE)")
_ENDS = {b"<?": b"?>", b"<!--": b"-->", b"<!DOCTYPE": b">"}
_NAME = re.compile(rb"\s*<([A-Za-z_][\w.-]*)[\s/>]")


def root_element_name(data: bytes) -> str | None:
    """The name of the outermost element, None when this does not look like XML."""
    text, at = data[:65_536].lstrip(b"\xef\xbb\xbf"), 0
    while found := _PROLOG.match(text, at):
        at = text.find(_ENDS[found[1]], found.end())
        if found[1] == b"<!DOCTYPE" and (opened := text.find(b"[", found.end(), at)) >= 0:
            closed = text.find(b"]", opened)
            at = text.find(b">", max(closed, opened))
        if at < 0:
            return None
        at += len(_ENDS[found[1]])
    name = _NAME.match(text, at)
    return name[1].decode() if name else None


def parse_xml(data: bytes) -> Element:
    """The outermost element; raises UnreadableCapture."""
    if len(data) > _LARGEST:
        raise UnreadableCapture(f"more than {_LARGEST >> 20} MiB of XML")
    if b"<!ENTITY" in data:
        raise UnreadableCapture("XML with entity declarations is not read")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise UnreadableCapture(f"not well-formed XML: {error.msg}", error.position[0]) from None
    except (ValueError, LookupError) as error:
        raise UnreadableCapture(f"not readable as XML: {error}") from None
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise UnreadableCapture(f"XML nested more than {_DEEPEST} deep")
        level = [child for element in level for child in element]
    return root


def parse_number(text: str | None, base: int = 10) -> int | None:
    """A whole number of at most 18 digits, None for anything else."""
    if text is None or not re.fullmatch(r"\s*(0[xX])?[0-9a-fA-F]{1,18}\s*", text):
        return None
    try:
        return int(text, base)
    except ValueError:
        return None
