"""Whether a folder that bai keeps something in could be another user's: who may replace a folder on the way
has bai believe what stands there, or write and delete where he likes.

One rule in two languages: `foreign_owner` for this machine, `WALK` for a node's shell. Each folder on the way
is root's or our own, and nobody else may write to it. On the way, a sticky folder that everybody may write to
(/tmp, /dev/shm) will do, for there nobody renames or removes what is another's.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def _owner_problem(folder: str, user: object) -> str:
    return f"{folder} belongs to user {user}, who could replace what is in it"


def _writable_problem(folder: str) -> str:
    return f"others may write to {folder}, and replace what is in it"


def foreign_owner(path: Path) -> str:
    """Why what bai keeps there could be another user's; empty when it cannot. Links are followed: the way to
    them and the way that they lead are both looked at. What is not there yet is ours to make."""
    for end in (path.absolute(), path.resolve()):
        for folder in (end, *end.parents):
            try:
                found = os.lstat(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                return f"{folder}: {error.strerror}"
            if stat.S_ISLNK(found.st_mode):
                continue  # Where it leads to is looked at, too.
            if found.st_uid not in (0, os.geteuid()):
                return _owner_problem(str(folder), found.st_uid)
            # Many users have a group of their own, whose folders it may write to.
            groups = 0 if found.st_gid in (0, os.getegid()) else stat.S_IWGRP
            sticky = folder != end and found.st_mode & stat.S_ISVTX
            if found.st_mode & (groups | stat.S_IWOTH) and not sticky:
                return _writable_problem(str(folder))
    return ""


FOREIGN, ABSENT = 96, 98
WALK = f"""
# walk FOLDER make|look: from / on, no link being followed. Nobody else changes what was looked at, so that
# the next step means what it says. `make`: missing ones are made. {ABSENT}: it is not there; {FOREIGN}: it
# could be another user's, and `why` says it.
newline='
'
walk() {{
    why=; make=$2; at=/; left=${{1#/}}/
    set -- /
    while [ -n "$left" ]; do
        at=${{at%/}}/${{left%%/*}}; left=${{left#*/}}
        set -- "$@" "$at"
    done
    seen=$(stat -c '%A %u %g %n' "$@" 2>/dev/null)  # The ones above first: what they lead to holds then.
    while [ $# -gt 0 ]; do
        found=${{seen%%"$newline"*}}; seen=${{seen#"$found"}}; seen=${{seen#"$newline"}}
        if [ "${{found#* * * }}" != "$1" ]; then
            [ "$make" != make ] || [ -e "$1" ] || [ -L "$1" ] || mkdir -m 700 "$1" 2>/dev/null
            found=$(stat -c '%A %u %g %n' "$1" 2>/dev/null) || return {ABSENT}
            seen=
        fi
        rights=${{found%% *}}; found=${{found#* }}
        user=${{found%% *}}; found=${{found#* }}; group=${{found%% *}}
        case $rights in
            d*) ;;
            l*) why="$1 is a link (links are not followed)"; return {FOREIGN} ;;
            *) why="$1 is not a folder"; return {FOREIGN} ;;
        esac
        if [ "$user" != 0 ] && [ ! -O "$1" ]; then
            why="{_owner_problem("$1", "$user")}"; return {FOREIGN}
        fi
        case $rights in
            ????????w*) open=yes ;;
            ?????w*) open=yes; [ "$group" = 0 ] || [ -G "$1" ] && open= ;;
            *) open= ;;
        esac
        case $rights in
            ?????????[tT]*) [ $# = 1 ] || open= ;;
        esac
        if [ -n "$open" ]; then
            why="{_writable_problem("$1")}"; return {FOREIGN}
        fi
        shift
    done
}}
"""
