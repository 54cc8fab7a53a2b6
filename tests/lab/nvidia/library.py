"""The smallest shared library that the dynamic linker knows by name: an ELF header and that name."""

from __future__ import annotations

import struct

_DYN, _X86_64, _LOAD, _DYNAMIC = 3, 62, 1, 2
_NULL, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 0, 5, 6, 10, 11, 14
_HEADER, _PROGRAM, _SYMBOL = 64, 56, 24


def shared_library(soname: str) -> bytes:
    """Its bytes; ELF 64-bit, little-endian, x86-64 (System V ABI, chapters 4 and 5)."""
    names = b"\0" + soname.encode() + b"\0"
    dynamic_at = _HEADER + 2 * _PROGRAM
    symbols_at = dynamic_at + 6 * 16
    names_at = symbols_at + _SYMBOL
    entries = [
        (_SONAME, 1), (_STRTAB, names_at), (_SYMTAB, symbols_at), (_STRSZ, len(names)), (_SYMENT, _SYMBOL),
        (_NULL, 0),
    ]  # fmt: skip
    size = names_at + len(names)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    rest = (_DYN, _X86_64, 1, 0, _HEADER, 0, 0, _HEADER, _PROGRAM, 2, 64, 0, 0)
    header = ident + struct.pack("<HHIQQQIHHHHHH", *rest)
    load = struct.pack("<IIQQQQQQ", _LOAD, 6, 0, 0, 0, size, size, 0x1000)
    length = len(entries) * 16
    where = struct.pack("<IIQQQQQQ", _DYNAMIC, 6, dynamic_at, dynamic_at, dynamic_at, length, length, 8)
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    return header + load + where + dynamic + bytes(_SYMBOL) + names
