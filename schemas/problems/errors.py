"""Every error of bai, in one place.

An error class's docstring is its message (formatted with the keyword arguments it was raised with); `code` is
stable and has an entry in the reference documentation; `retryable` says whether the same call may succeed
later; `hint` says what to do.

    BaiError
    ├── InvalidRepository        E0001  the documents have problems (each a `Problem` with its place)
    ├── CannotRead               E0002  a file, directory or commit that cannot be read
    ├── ProviderError            E0300  an agent provider failed
    │   ├── ProviderUnavailable  E0301  (retryable) cannot be reached or answers nothing useful
    │   │   ├── NodeUnreachable  E0306  (retryable) a node does not answer, or a connection to it broke
    │   │   ├── HostKeyRefused   E0307  a node's host key is not known, or another one than it was
    │   │   └── LoginRefused     E0308  a node lets nobody in with these keys
    │   ├── KernelRefused        E0302  the provider cannot create what was asked
    │   ├── KernelNotFound       E0303  no such kernel
    │   ├── UnknownProvider      E0304  no provider of this name
    │   ├── VolumeRefused        E0310  a volume's folder cannot be made, moved or deleted
    │   ├── ImageMissing         E0311  a node does not have an image
    │   ├── PullFailed           E0312  a node cannot fetch an image
    │   ├── InvalidOption        E0305  a provider's option is not usable
    │   ├── MachineRefused       E0340  a node is reached, and does not do what was asked of it
    │   ├── TargetRefused        E0341  (retryable) nothing answers at a socket or port of a node
    │   ├── CommandTimedOut      E0342  (retryable) a command on a node took too long
    │   ├── ProvisioningImpossible E0350  Ansible, or the roles, cannot be used where bai runs
    │   └── NodeBusy             E0351  (retryable) somebody else provisions the node
    ├── RegistryError            E0330  a registry of images failed
    │   ├── RegistryRefused      E0331  who asks may not see what was asked for
    │   ├── NoSuchImage          E0332  the registry has no such image or tag
    │   ├── RegistryUntrusted    E0333  its certificate is not believed
    │   └── RegistryUnreachable  E0334  (retryable) it does not answer
    ├── ForgeError               E0360  where pull requests are talked about
    │   ├── ForgeUnknown         E0361  no pull request is known, or no token
    │   ├── ForgeRefused         E0362  the forge does not do what was asked of it
    │   └── ForgeUnreachable     E0363  (retryable) it does not answer
    ├── RemoteError              E0370  the git remote that documents come from
    │   ├── RemoteUnreachable    E0371  (retryable) it cannot be fetched
    │   ├── NoSuchRevision       E0372  (retryable) it has no such branch, tag or commit
    │   ├── HistoryRewritten     E0373  its branch does not rest on what is carried out
    │   └── NotPushed            E0374  a document was not committed, or not taken
    ├── NotTrusted               E0375  a commit was not signed, or changes what is somebody else's
    ├── NotifyError              E0380  a notification was not sent
    │   ├── NotSent              E0381  and will not be, as it is
    │   └── NotSentNow           E0382  (retryable) perhaps later
    ├── StoreError               E0400  the store cannot be used
    │   ├── LeaseHeld            E0401  (retryable) somebody else is applying
    │   ├── LeaseLost            E0402  the fencing token is no longer the newest
    │   ├── StoreUnavailable     E0403  (retryable) its server or another writer is in the way
    │   └── StoreMoved           E0404  its contents are elsewhere now
    ├── CommandError             E0600  what was asked of the command cannot be done
    │   ├── NoSuchResource       E0601  the name given means no resource
    │   ├── AmbiguousName        E0602  the name given means several
    │   ├── NotConfirmed         E0603  nobody said yes, and nobody can be asked
    │   └── AlreadyThere         E0604  a file would be overwritten
    └── PlanError                E0500  a plan cannot be made or carried out
        ├── StalePlan            E0501  the world moved since the plan was made
        ├── GuardRefused         E0502  it deletes what is protected, or breaks a Policy
        ├── SecretMissing        E0504  a secret's reference leads nowhere
        └── IncompleteObservation E0503 (retryable) not all could be observed; absence says nothing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schemas.problems.text import printable


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

    def __post_init__(self) -> None:
        """What stands in a file never drives a terminal."""
        for name in ("path", "message", "hint"):
            object.__setattr__(self, name, printable(getattr(self, name)))

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


class NodeUnreachable(ProviderUnavailable):
    """Node {node} cannot be reached: {why}"""

    code = "BAI-E0306"


class HostKeyRefused(ProviderUnavailable):
    """The host key of node {node} ({host}) is not accepted: {why}"""

    code = "BAI-E0307"
    retryable = False


class LoginRefused(ProviderUnavailable):
    """Node {node} does not let {user} in: {why}"""

    code = "BAI-E0308"
    retryable = False


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


class NotAble(ProviderError):
    """Provider {provider} cannot {what}"""

    code = "BAI-E0320"


class NotRunning(ProviderError):
    """Kernel {kernel} does not run"""

    code = "BAI-E0321"


class CopyRefused(ProviderError):
    """Cannot copy {path} of kernel {kernel}: {why}"""

    code = "BAI-E0322"


class PortRefused(ProviderError):
    """Port {port} of kernel {kernel} cannot be reached: {why}"""

    code = "BAI-E0323"
    retryable = True


class VolumeRefused(ProviderError):
    """{volume} on {node}: {why}"""

    code = "BAI-E0310"


class ImageMissing(ProviderError):
    """Provider {provider}: node {node} does not have the image {image}"""

    code = "BAI-E0311"


class PullFailed(ProviderError):
    """Provider {provider}: node {node} cannot pull {image}: {why}"""

    code = "BAI-E0312"


class MachineRefused(ProviderError):
    """Node {node} refuses {what}: {why}"""

    code = "BAI-E0340"


class TargetRefused(ProviderUnavailable):
    """Nothing answers at {target} on node {node}: {why}"""

    code = "BAI-E0341"


class CommandTimedOut(ProviderUnavailable):
    """Node {node} did not finish `{command}` within {seconds} s"""

    code = "BAI-E0342"


class ProvisioningImpossible(ProviderError):
    """Nodes cannot be provisioned from here: {why}"""

    code = "BAI-E0350"


class NodeBusy(ProviderUnavailable):
    """Node {node} is being provisioned by somebody else: {why}"""

    code = "BAI-E0351"


class ProvisioningFailed(ProviderError):
    """Node {node} could not be brought to its profile: {why}"""

    code = "BAI-E0352"


class RegistryError(BaiError):
    """Registry {registry}: {why}"""

    code = "BAI-E0330"


class RegistryRefused(RegistryError):
    """Registry {registry} refuses: {why}"""

    code = "BAI-E0331"


class NoSuchImage(RegistryError):
    """Registry {registry} has no {image}"""

    code = "BAI-E0332"


class RegistryUntrusted(RegistryError):
    """Registry {registry} is not believed: {why}"""

    code = "BAI-E0333"


class RegistryUnreachable(RegistryError):
    """Registry {registry} does not answer: {why}"""

    code = "BAI-E0334"
    retryable = True


class RemoteError(BaiError):
    """The remote {remote}: {why}"""

    code = "BAI-E0370"


class RemoteUnreachable(RemoteError):
    """The remote {remote} cannot be fetched: {why}"""

    code = "BAI-E0371"
    retryable = True


class NoSuchRevision(RemoteError):
    """The remote {remote} has no {revision}"""

    code = "BAI-E0372"
    retryable = True


class HistoryRewritten(RemoteError):
    """{revision} of {remote} does not rest on the commit that is carried out: its history was rewritten"""

    code = "BAI-E0373"


class NotPushed(RemoteError):
    """Nothing was committed or pushed, {remote} says: {why}"""

    code = "BAI-E0374"


class NotTrusted(BaiError):
    """Commit {revision} is not followed: {why}"""

    code = "BAI-E0375"


class ForgeError(BaiError):
    """The forge {forge}: {why}"""

    code = "BAI-E0360"


class ForgeUnknown(ForgeError):
    """No pull request to talk to: {why}"""

    code = "BAI-E0361"


class ForgeRefused(ForgeError):
    """The forge {forge} refuses {request}: {why}"""

    code = "BAI-E0362"


class ForgeUnreachable(ForgeError):
    """The forge {forge} does not answer: {why}"""

    code = "BAI-E0363"
    retryable = True


class NotifyError(BaiError):
    """{why}"""

    code = "BAI-E0380"


class NotSent(NotifyError):
    """The message was not sent: {why}"""

    code = "BAI-E0381"


class NotSentNow(NotifyError):
    """The message was not sent this time: {why}"""

    code = "BAI-E0382"
    retryable = True


class StoreError(BaiError):
    """The store {store} cannot be used: {why}"""

    code = "BAI-E0400"


class StoreUnavailable(StoreError):
    """The store {store} cannot be used now: {why}"""

    code = "BAI-E0403"
    retryable = True


class StoreMoved(StoreError):
    """The store {store} is no longer used: its contents were moved to {target}"""

    code = "BAI-E0404"


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
    """The plan is refused: {why}"""

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
