"""Quotas: what a domain, project or user may hold, and every reason why a session would pass one.

A slot that a quota does not name is unlimited, or zero where the quota says `unspecified: zero`. Several
quotas on one subject all hold. What a quota names and its subject does not use, others of its cohort may
borrow; together they never hold more than their quotas' sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.model import slots
from planner.model.demand import granted_shares
from planner.model.types import (
    Fractional,
    QuotaLimit,
    Reason,
    SessionRequest,
    SlotMap,
    Snapshot,
)
from planner.model.uses import QuotaUse


@dataclass(frozen=True, slots=True)
class QuotaStanding:
    """How a quota stands. `used` has the slots that it limits or that are used; `borrowed` what is held
    beyond the quota itself, and `lenders` the quotas of its cohort that do not use all of theirs, by slot;
    `lent` what it does not use and others of its cohort hold, so that it would have to wait for it;
    `reclaimable` what sessions hold of the borrowed that may be pushed out."""

    limit: QuotaLimit
    used: SlotMap
    sessions: int
    borrowed: SlotMap
    lenders: Mapping[str, tuple[str, ...]]
    lent: SlotMap
    reclaimable: SlotMap


class _QuotaAccount:
    """One quota and what its subject uses of it."""

    def __init__(self, limit: QuotaLimit) -> None:
        self.limit = limit
        self.used: dict[str, int] = dict(limit.others or {})
        self.sessions = 0
        self.waiting = 0
        self.before: dict[str, int] = {}
        self.cohort: list[_QuotaAccount] = []
        """All quotas that lend to each other, this one among them; empty without a cohort."""

    def over(self, slot: str, more: int = 0) -> int:
        """How much of a slot is held beyond the quota itself, `more` included."""
        return self.used.get(slot, 0) + more - self.limit.slots.get(slot, 0)

    def shared(self, slot: str) -> tuple[int, int]:
        """What the cohort holds of a slot, and what its quotas are in all; those that do not name it take no
        part."""
        members = [one for one in self.cohort if slot in one.limit.slots]
        held = sum(one.used.get(slot, 0) for one in members)
        return held, sum(one.limit.slots[slot] for one in members)


class QuotaLedger:
    """Use of every quota; changed by `take`, asked by `violations`."""

    def __init__(self, limits: Sequence[QuotaLimit], rules: Mapping[str, Fractional] | None = None) -> None:
        """`rules`: by group, how parts of devices are rounded up: quotas count what is given."""
        self._rules = rules or {}
        self._accounts = [_QuotaAccount(limit) for limit in limits]
        self._by_subject: dict[tuple[str, str], list[_QuotaAccount]] = {}
        for account in self._accounts:
            key = (account.limit.subject_kind, account.limit.subject)
            self._by_subject.setdefault(key, []).append(account)
        self._of_cluster = [one for one in self._accounts if one.limit.subject_kind == "cluster"]
        cohorts: dict[tuple[str, str, str | None], list[_QuotaAccount]] = {}
        for account in self._accounts:
            if account.limit.cohort is not None:
                where = (account.limit.cohort, account.limit.subject_kind, account.limit.group)
                account.cohort = cohorts.setdefault(where, [])
                account.cohort.append(account)

    def take(self, session: SessionRequest) -> None:
        """Count a session that runs or was just placed."""
        self._add_usage(session, 1)

    def give_back(self, session: SessionRequest) -> None:
        self._add_usage(session, -1)

    def mark_start(self) -> None:
        """From here on uses count as the plan's own: `uses` reports this moment as before."""
        for account in self._accounts:
            account.before = dict(account.used)

    def count_pending(self, session: SessionRequest) -> None:
        """Count a session as pending; those beyond a pending limit are refused in the order they are
        counted.
        """
        for account in self._accounts_of(session) if self._by_subject else ():
            account.waiting += 1

    def violations(self, session: SessionRequest) -> list[Reason]:
        """Why this session may not start now, every quota that says no with its numbers."""
        if not self._by_subject:
            return []
        request: SlotMap | None = None
        reasons: list[Reason] = []
        for account in self._accounts_of(session):
            if request is None:
                request = self.granted_slots(session)
            reasons.extend(_violations(account, session, _counted(account.limit, session, request)))
        return reasons

    def may_reclaim(self, session: SessionRequest, victim: SessionRequest) -> bool:
        """Whether the session's quotas justify pushing this one out: both count against one of them, or the
        victim's borrows from the session's, which itself stays within what it owns.
        """
        request, own = self.granted_slots(session), list(self._accounts_of(session))
        theirs = list(self._accounts_of(victim))
        if any(one in own for one in theirs):
            return True
        return any(
            one is not mine and mine.over(slot, asked) <= 0 < one.over(slot)
            for mine in own
            for one in theirs
            if mine.cohort and one.cohort is mine.cohort
            for slot, asked in request.items()
            if asked > 0 and slot in mine.limit.slots and slot in one.limit.slots
        )

    def borrowed_text(self, session: SessionRequest) -> str:
        """What the session holds beyond quotas of its own, in words; empty when nothing."""
        if not self._by_subject:
            return ""
        request = self.granted_slots(session)
        found = [
            f"{slots.amount_text(slot, min(asked, account.over(slot)))} from cohort {account.limit.cohort}"
            for account in self._accounts_of(session)
            if account.cohort
            for slot, asked in sorted(request.items())
            if asked > 0 and slot in account.limit.slots and account.over(slot) > 0
        ]
        return f"borrows {' and '.join(found)}" if found else ""

    def pending_violations(self, session: SessionRequest) -> list[Reason]:
        """Reasons from limits on how many sessions may wait, counting those passed to `count_pending`
        before."""
        if not self._by_subject:
            return []
        return [
            _reason(
                account.limit,
                f"allows {account.limit.pending} pending sessions and {account.waiting} wait already",
            )
            for account in self._accounts_of(session)
            if account.limit.pending is not None and account.waiting >= account.limit.pending
        ]

    def uses(self) -> tuple[QuotaUse, ...]:
        return tuple(
            QuotaUse(
                one.limit.name,
                _subject_text(one.limit),
                dict(one.limit.slots),
                _reported_slots(one, one.before),
                _reported_slots(one, one.used),
            )
            for one in self._accounts
        )

    def standings(self, leaving: Iterable[SessionRequest] = ()) -> tuple[QuotaStanding, ...]:
        """`leaving`: sessions that were counted and may be pushed out."""
        able: dict[int, dict[str, int]] = {}
        for session in leaving if any(one.cohort for one in self._accounts) else ():
            request = self.granted_slots(session)
            for account in self._accounts_of(session):
                mine = able.setdefault(id(account), {})
                for slot, amount in request.items():
                    mine[slot] = mine.get(slot, 0) + amount
        return tuple(_standing(one, able.get(id(one), {})) for one in self._accounts)

    def _add_usage(self, session: SessionRequest, sign: int) -> None:
        if not self._by_subject:
            return
        request: SlotMap | None = None
        for account in self._accounts_of(session):
            if request is None:
                request = self.granted_slots(session)
            account.sessions += sign
            for slot, amount in _counted(account.limit, session, request).items():
                account.used[slot] = account.used.get(slot, 0) + sign * amount

    def granted_slots(self, session: SessionRequest) -> SlotMap:
        """A session's slots in total as it is given them: parts of devices in the group's steps."""
        rule = self._rules.get(session.group)
        if rule is None or not any(slot.endswith(slots.SHARES) for k in session.kernels for slot in k.slots):
            return requested_slots(session)
        return slots.total(
            {
                slot: granted_shares(amount, rule) if slot.endswith(slots.SHARES) else amount
                for slot, amount in kernel.slots.items()
            }
            for kernel in session.kernels
        )

    def _accounts_of(self, session: SessionRequest) -> Iterator[_QuotaAccount]:
        for key in (("domain", session.domain), ("project", session.project), ("user", session.user)):
            for account in self._by_subject.get(key, ()):
                if account.limit.group is None or account.limit.group == session.group:
                    yield account
        if session.project:  # Others' use has none, and is counted already.
            yield from self._of_cluster


def quota_standings(snapshot: Snapshot) -> tuple[QuotaStanding, ...]:
    """How the quotas of a cluster stand with what runs."""
    ledger = QuotaLedger(snapshot.quotas, {group.name: group.fractional for group in snapshot.groups})
    for one in snapshot.running:
        ledger.take(one.request)
    groups = {group.name for group in snapshot.groups if group.preemption is not None}
    requests = (one.request for one in snapshot.running)
    return ledger.standings(each for each in requests if each.preemptible and each.group in groups)


def _standing(account: _QuotaAccount, leaving: SlotMap) -> QuotaStanding:
    own = account.limit.slots if account.cohort else {}
    over = {slot: account.over(slot) for slot in own}
    borrowed = {slot: more for slot, more in over.items() if more > 0}
    lent = {}
    for slot, more in over.items():
        held, total = account.shared(slot)
        if more < 0 and (missing := held - total - more) > 0:
            lent[slot] = min(missing, -more)
    return QuotaStanding(
        account.limit,
        _reported_slots(account, account.used),
        account.sessions,
        borrowed,
        {slot: tuple(_lenders(account, slot)) for slot in borrowed},
        lent,
        {slot: min(more, leaving[slot]) for slot, more in borrowed.items() if leaving.get(slot)},
    )


def _lenders(account: _QuotaAccount, slot: str) -> Iterator[str]:
    for one in account.cohort:
        if one is not account and slot in one.limit.slots and one.over(slot) < 0:
            yield one.limit.name


def requested_slots(session: SessionRequest) -> dict[str, int]:
    """A session's slots in total, as requested."""
    return slots.total(kernel.slots for kernel in session.kernels)


def _counted(limit: QuotaLimit, session: SessionRequest, request: SlotMap) -> SlotMap:
    """What a quota counts of a session."""
    if limit.others is None:
        return request
    held = [sum(map(_devices, kernel.slots.items())) for kernel in session.kernels]
    claims = sum(-(-count // slots.DEVICES_OF_A_CLAIM) for count in held)
    return {**request, slots.PODS: len(session.kernels), slots.CLAIMS: claims}


def _devices(slot: tuple[str, int]) -> int:
    name, amount = slot
    return amount if slots.is_device(name) and not name.endswith(slots.SHARES) else 0


def _violations(account: _QuotaAccount, session: SessionRequest, request: SlotMap) -> Iterator[Reason]:
    limit, own = account.limit, requested_slots(session)
    for slot in sorted(request):
        asked, used = request[slot], account.used.get(slot, 0)
        allowed = _limit_on(limit, limit.slots, slot)
        if asked > 0 and allowed is not None and account.cohort and slot in limit.slots:
            yield from _cohort_violations(
                account, slot, asked, f"this session {_request_text(slot, asked, own[slot])}"
            )
        elif asked > 0 and allowed is not None and used + asked > allowed:
            numbers = f"uses {slots.amount_text(slot, used)} of {slots.amount_text(slot, allowed)}"
            if limit.others is not None:
                numbers = f"{numbers}, {slots.amount_text(slot, limit.others.get(slot, 0))} by others"
            asks = _request_text(slot, asked, own.get(slot, asked))
            yield _reason(limit, f"{numbers}; this session {asks}")
        single = limit.per_session.get(slot)
        if single is not None and own[slot] > single:
            asks = f"this session asks for {slots.amount_text(slot, own[slot])}"
            yield _reason(limit, f"allows {slots.amount_text(slot, single)} per session; {asks}")
    if limit.concurrent is not None and account.sessions >= limit.concurrent:
        yield _reason(
            limit, f"allows {slots.plural(limit.concurrent, 'running session')} and {account.sessions} run"
        )
    kernels = len(session.kernels)
    if limit.kernels_per_session is not None and kernels > limit.kernels_per_session:
        yield _reason(
            limit, f"allows {limit.kernels_per_session} containers per session; this session has {kernels}"
        )
    yield from _kernel_violations(limit, session)
    if limit.max_priority is not None and session.priority > limit.max_priority:
        yield _reason(
            limit, f"allows priorities up to {limit.max_priority}; this session has {session.priority}"
        )
    if limit.max_lifetime is not None and (session.timeout is None or session.timeout > limit.max_lifetime):
        asks = "has no timeout" if session.timeout is None else f"may run {session.timeout:g} s"
        yield _reason(limit, f"allows sessions of at most {limit.max_lifetime:g} s; this session {asks}")


def _kernel_violations(limit: QuotaLimit, session: SessionRequest) -> Iterator[Reason]:
    """What one kernel alone asks too much or too little of; kernels that are alike are told once."""
    for bounds, word in ((limit.per_kernel, "at most"), (limit.per_kernel_least, "at least")):
        for slot, bound in sorted(bounds.items()):
            asked = {kernel.slots[slot] for kernel in session.kernels if kernel.slots.get(slot)}
            wrong = (each for each in asked if (each > bound if word == "at most" else each < bound))
            for each in sorted(wrong):
                text = f"allows {word} {slots.amount_text(slot, bound)} per container"
                yield _reason(limit, f"{text}; this session asks for {slots.amount_text(slot, each)} in one")


def _request_text(slot: str, given: int, asked: int) -> str:
    """What a session asks for, and what it would be given where that is more."""
    text = f"asks for {slots.amount_text(slot, asked)} more"
    return text if given == asked else f"{text} and is given {slots.amount_text(slot, given)}"


def _cohort_violations(account: _QuotaAccount, slot: str, asked: int, asks: str) -> Iterator[Reason]:
    """Why a slot may not be taken from a quota that lends and borrows."""
    limit = account.limit
    used, own = account.used.get(slot, 0), limit.slots[slot]
    most = None if limit.borrowing is None else limit.borrowing.get(slot, 0)
    over = account.over(slot, asked)
    uses = f"uses {slots.amount_text(slot, used)} of {slots.amount_text(slot, own)}"
    if most is not None and over > most:
        may = f"may borrow {slots.amount_text(slot, most)} from cohort {limit.cohort}"
        yield _reason(limit, f"{uses} and {may}; {asks}")
        return
    held, total = account.shared(slot)
    if held + asked <= total:
        return
    of = f"cohort {limit.cohort} uses {slots.amount_text(slot, held)} of {slots.amount_text(slot, total)}"
    if over > 0:
        yield _reason(limit, f"{uses}, and {of}, so that too little is left to borrow; {asks}")
        return
    lent = [
        f"quota {one.limit.name} holds {slots.amount_text(slot, one.over(slot))} of it"
        for one in account.cohort
        if one is not account and slot in one.limit.slots and one.over(slot) > 0
    ]
    yield _reason(limit, f"{uses}, but what is left is lent: {', '.join(lent) or of}; {asks}")


def _limit_on(limit: QuotaLimit, given: Mapping[str, int], slot: str) -> int | None:
    """The limit on a slot; None when unlimited. A quota without any slots limits none."""
    if slot in given:
        return given[slot]
    return 0 if limit.unspecified == "zero" and given else None


def _reason(limit: QuotaLimit, text: str) -> Reason:
    where = f" in group {limit.group}" if limit.group else ""
    text = f"quota {limit.name} ({_subject_text(limit)}{where}): {text}"
    return Reason("quota", text, f"quota {limit.name}")


def _subject_text(limit: QuotaLimit) -> str:
    return f"{limit.subject_kind} {limit.subject}"


def _reported_slots(account: _QuotaAccount, used: Mapping[str, int]) -> dict[str, int]:
    """Slots worth reporting: those limited or used."""
    names = sorted({*account.limit.slots, *(slot for slot, amount in used.items() if amount)})
    return {slot: used.get(slot, 0) for slot in names}
