"""Which commit of a remote counts: the newest that rests on the last good one, or one that a person named."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from reconciler.gitops.remote import Remote, redact_url
from reconciler.sources.source import Source, remote_source
from reconciler.trust.gate import TrustGate
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.git_remote import HistoryRewritten, NoSuchRevision, NotTrusted
from schemas.repository.declared_stores import NO_OWNER, OwnerStores


class MetaStore(Protocol):
    """What must outlive the process: the last commit that counted. A store is one."""

    def meta(self, key: str) -> str | None: ...

    def set_meta(self, key: str, value: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TrackedRef:
    """What of a remote is followed, as the command line names it; read by the revision tracker."""

    remote: Remote
    ref: str
    """A branch, tag or commit."""
    subpath: str = ""
    """The folder of the documents in it."""


class RevisionTracker:
    """`gate`: what a commit must pass; None: nothing."""

    def __init__(
        self, tracked: TrackedRef, memory: MetaStore, cluster: str,
        owner: OwnerStores = NO_OWNER, gate: TrustGate | None = None,
    ) -> None:  # fmt: skip
        remote, ref = tracked.remote, tracked.ref
        self.remote = remote
        self.ref = ref
        self._subpath = tracked.subpath
        self._owner = owner
        self._memory = memory
        self._key = f"good-commit/{cluster}/{redact_url(remote.url)}/{ref}"
        # What has passed is a matter of the remote, and the same for all clusters in it.
        self._passed_key = f"trusted-commit/{redact_url(remote.url)}/{ref}"
        self.gate = gate
        self._passed = ""
        self._accepted: str | None = None
        """The last good commit, as it was read when the remote was asked last."""
        self._source: Source | None = None

    @property
    def is_judged(self) -> bool:
        """Whether commits must be signed, or their paths somebody's."""
        return self.gate is not None

    @property
    def last_good_commit(self) -> str:
        """The last commit that was accepted; empty when none was, or it is lost."""
        commit = self._memory.meta(self._key) or ""
        return commit if commit and self.remote.has_commit(commit) else ""

    def select_commit(self, named: str = "") -> tuple[str, BaiError | None]:
        """The commit that counts now, and what is wrong with what does not. `named`: a commit to be at
        instead of the newest. Raises BaiError when nothing ever was good."""
        try:
            return self._fetch_target(named), None
        except BaiError as error:
            # Whoever goes back need not wait for a remote that is away.
            commit = self._resolve_locally(named) or self.last_good_commit
            if not commit:
                raise
            return commit, error

    def accept(self, commit: str) -> None:
        """It was read and found to be usable: what follows must rest on it."""
        if self._accepted != commit and self._memory.meta(self._key) != commit:
            self.remote.keep_ref(commit, _ref_name(self._key))
            self._memory.set_meta(self._key, commit)
        self._accepted = commit

    def verify_trust(self, commit: str) -> None:
        """Raises NotTrusted for a commit that must not be followed, or even read. What is new in it since the
        last one that passed (before anything was judged: that was good) is judged, once; what that one rests
        on has passed. Raises CannotRead and InvalidRepository where the owner's settings cannot be read."""
        if self.gate is None or commit == self._passed:
            return
        base = self._memory.meta(self._passed_key) or self.last_good_commit
        if commit != base and not (base and self.remote.descends_from(base, commit)):
            if base and not self.remote.has_commit(base):
                why = f"{base[:12]}, the last that was trusted, is not there any more: push it again"
                raise NotTrusted(revision=commit[:12], why=why)
            self.gate.check(self.remote.folder, commit, base)
            self.remote.keep_ref(commit, _ref_name(self._passed_key))
            self._memory.set_meta(self._passed_key, commit)
        self._passed = commit

    def descends_from(self, commit: str, ancestor: str) -> bool:
        """Whether `ancestor` is this commit, or in its history."""
        return commit == ancestor or self.remote.descends_from(commit, ancestor)

    def source(self, commit: str) -> Source:
        """Where the documents of a commit are."""
        if self._source is None or self._source.revision != commit:
            self._source = remote_source(self.remote.folder, commit, self._subpath, self._owner)
        return self._source

    def _resolve_locally(self, named: str) -> str:
        """The commit that is named, where the copy has it; else nothing."""
        try:
            return self.remote.resolve(named) if named else ""
        except NoSuchRevision:
            return ""

    def _fetch_target(self, named: str) -> str:
        good = self._accepted = self._memory.meta(self._key)
        newest = self.remote.fetch(self.ref)
        if named:
            return self.remote.resolve(named)
        if good and newest != good and not self.remote.descends_from(newest, good):
            hint = f"`bai rollback {newest[:12]}` accepts it, `bai resume` then follows it again"
            raise HistoryRewritten(remote=redact_url(self.remote.url), revision=self.ref, hint=hint)
        return newest


def _ref_name(key: str) -> str:
    """Of what is remembered under this key: one copy of a remote serves many clusters and branches."""
    return f"{key.partition('/')[0]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
