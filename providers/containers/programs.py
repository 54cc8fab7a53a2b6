"""A program of a container, looked for by the container's own shell."""

from __future__ import annotations

REQUIRE_PROGRAM = """fail() { echo "bai: $2" >&2; exit $1; }
case $1 in
*/*)
    [ -e "$1" ] || fail 127 "$1: the container has no such file"
    [ -x "$1" ] && [ ! -d "$1" ] || fail 126 "$1: is no program that may be executed in the container" ;;
*)
    command -v "$1" >/dev/null || fail 127 "$1: the container has no such program in its PATH" ;;
esac
"""
"""Ends a shell with a sentence, and 126 or 127, where its first argument is no program that can be run."""
