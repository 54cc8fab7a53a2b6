"""What the owner of a server lets it do with changes that people ask for."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.proposals.values import Person, PushMode

BAI = Person("bai", "bai@localhost")


@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """`forge`: the address of the API of the forge that the remote lies on, where its name does not tell it;
    without a token no pull request is opened."""

    mode: PushMode = "off"
    committer: Person = BAI
    forge: str = ""
    forge_token: str = field(default="", repr=False)


NO_PROPOSALS = ProposalSettings()
