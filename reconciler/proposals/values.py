"""What somebody proposes: files of one base, in whose name, and why."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from reconciler.gitops.submit import FileChange

PushMode = Literal["off", "branch", "commit"]
"""`off`: nothing is written, the YAML is there to copy. `branch`: to a branch of its own, for a pull request.
`commit`: to the branch that is followed."""
LONGEST_LINE = 200
LONGEST_REASON = 1000
_NOT_IN_ADDRESS = re.compile(r"[^A-Za-z0-9._+-]+")
_NOT_IN_BRANCH = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Person:
    """An author or committer, as git writes them."""

    name: str
    address: str

    @classmethod
    def of(cls, name: str, host: str) -> Person:
        """Who is logged in: an e-mail address is taken as it is, another name belongs to `host`."""
        shown = one_line(name.replace("<", "").replace(">", ""), LONGEST_LINE) or "somebody"
        local, mark, domain = shown.rpartition("@")
        address = f"{_address_part(local)}@{_address_part(domain)}" if mark and local and domain else ""
        return cls(shown, address or f"{_address_part(shown)}@{_address_part(host)}")


@dataclass(frozen=True, slots=True)
class Proposal:
    """`base`: the commit that the changes were made of. `title` begins the message, `reason` is what somebody
    typed."""

    base: str
    changes: tuple[FileChange, ...]
    title: str
    reason: str
    author: Person

    @property
    def message(self) -> str:
        """What was typed is one paragraph with words of ours before it: no line of it is a trailer."""
        title, reason = one_line(self.title, LONGEST_LINE), one_line(self.reason, LONGEST_REASON)
        return f"{title}\n" + (f"\nReason: {reason}\n" if reason else "")

    @property
    def branch(self) -> str:
        """`bai/ada/end-of-session-vision-train`."""
        return f"bai/{_branch_part(self.author.name, 30)}/{_branch_part(self.title, 60)}"


def one_line(text: str, longest: int) -> str:
    """Without line breaks and what no terminal shows, and no longer than that."""
    kept = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text)
    return " ".join(kept.split())[:longest].rstrip()


def _address_part(text: str) -> str:
    return _NOT_IN_ADDRESS.sub("-", text).strip("-.") or "somebody"


def _branch_part(text: str, longest: int) -> str:
    return _NOT_IN_BRANCH.sub("-", text.lower())[:longest].strip("-") or "change"
