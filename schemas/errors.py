"""Every error of bai, in one place.

An error class's docstring is its message (formatted with the keyword arguments it was raised with); `code` is
stable and has an entry in the reference documentation; `retryable` says whether the same call may succeed
later; `hint` says what to do.

    BaiError
    ├── InvalidRepository        E0001  the documents have problems (each a `Problem` with its place)
    ├── CannotRead               E0002  a file, directory or commit that cannot be read
    ├── ProviderError            E0300  an agent provider failed
    │   ├── ProviderUnavailable  E0301  (retryable) cannot be reached or answers nothing useful
    │   ├── KernelRefused        E0302  the provider cannot create what was asked
    │   ├── KernelNotFound       E0303  no such kernel
    │   ├── UnknownProvider      E0304  no provider of this name
    │   └── InvalidOption        E0305  a provider's option is not usable
    ├── StoreError               E0400  the store cannot be used
    │   ├── LeaseHeld            E0401  (retryable) somebody else is applying
    │   └── LeaseLost            E0402  the fencing token is no longer the newest
    ├── CommandError             E0600  what was asked of the command cannot be done
    │   ├── NoSuchResource       E0601  the name given means no resource
    │   ├── AmbiguousName        E0602  the name given means several
    │   ├── NotConfirmed         E0603  nobody said yes, and nobody can be asked
    │   └── AlreadyThere         E0604  a file would be overwritten
    └── PlanError                E0500  a plan cannot be made or carried out
        ├── StalePlan            E0501  the world moved since the plan was made
        ├── GuardRefused         E0502  a protected resource would be deleted
        ├── SecretMissing        E0504  a secret's reference leads nowhere
        └── IncompleteObservation E0503 (retryable) not all could be observed; absence says nothing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands: a file path relative to the repository root, line and column from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong with a document: its place, stable code (`BAI-V…`), path inside the document, what is
    wrong, what would be right."""

    place: Place
    code: str
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        at = f" ({self.path})" if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.place}: {self.code}{at}: {self.message}{hint}"


class BaiError(Exception):
    """{message}"""

    code: ClassVar[str] = "BAI-E0000"
    retryable: ClassVar[bool] = False

    def __init__(self, *, hint: str = "", **fields: object) -> None:
        self.fields = fields
        self.hint = hint
        super().__init__(fields)

    @property
    def message(self) -> str:
        """The class's docstring, first paragraph, with the fields filled in."""
        text = " ".join((type(self).__doc__ or "").split("\n\n")[0].split())
        return text.format(**self.fields)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class InvalidRepository(BaiError):
    """{count} problem(s) in {where}"""

    code = "BAI-E0001"

    def __init__(self, problems: tuple[Problem, ...], *, where: str = "the repository") -> None:
        self.problems = problems
        super().__init__(count=len(problems), where=where)


class CannotRead(BaiError):
    """Cannot read {what}: {why}"""

    code = "BAI-E0002"


class ProviderError(BaiError):
    """Provider {provider}: {why}"""

    code = "BAI-E0300"


class ProviderUnavailable(ProviderError):
    """Provider {provider} cannot be reached: {why}"""

    code = "BAI-E0301"
    retryable = True


class KernelRefused(ProviderError):
    """Provider {provider} cannot create kernel {kernel}: {why}"""

    code = "BAI-E0302"


class KernelNotFound(ProviderError):
    """Provider {provider} has no kernel {kernel}"""

    code = "BAI-E0303"


class UnknownProvider(ProviderError):
    """There is no provider {provider}; known are {known}"""

    code = "BAI-E0304"


class InvalidOption(ProviderError):
    """Provider {provider}, option {option}: {why}"""

    code = "BAI-E0305"


class StoreError(BaiError):
    """The store {store} cannot be used: {why}"""

    code = "BAI-E0400"


class LeaseHeld(StoreError):
    """{holder} holds the lease on cluster {cluster} until {until}"""

    code = "BAI-E0401"
    retryable = True


class LeaseLost(StoreError):
    """The lease on cluster {cluster} with fencing token {token} was taken over; nothing more was written"""

    code = "BAI-E0402"


class PlanError(BaiError):
    """{why}"""

    code = "BAI-E0500"


class StalePlan(PlanError):
    """The plan is stale: {why}"""

    code = "BAI-E0501"


class GuardRefused(PlanError):
    """Deleting {resource} is refused: it is recorded as protected"""

    code = "BAI-E0502"


class IncompleteObservation(PlanError):
    """What runs could not be observed completely: {why}"""

    code = "BAI-E0503"
    retryable = True


class SecretMissing(PlanError):
    """The secret {reference} cannot be read: {why}"""

    code = "BAI-E0504"


class CommandError(BaiError):
    """{why}"""

    code = "BAI-E0600"


class NoSuchResource(CommandError):
    """There is no {what} named {name}"""

    code = "BAI-E0601"


class AmbiguousName(CommandError):
    """{name} can mean {candidates}"""

    code = "BAI-E0602"


class NotConfirmed(CommandError):
    """Nothing was changed: {why}"""

    code = "BAI-E0603"


class AlreadyThere(CommandError):
    """{path} is already there and is not overwritten"""

    code = "BAI-E0604"
