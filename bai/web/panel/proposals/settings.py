"""What the owner of a server lets it do with changes that people ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.proposals.values import Person, PushMode

if TYPE_CHECKING:
    from providers.forge import Forge

BAI = Person("bai", "bai@localhost")


@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """`forge`: the address of the API of the forge that the remote lies on, where its name does not tell it;
    without a token no pull request is opened."""

    mode: PushMode = "off"
    committer: Person = BAI
    forge: str = ""
    forge_token: str = field(default="", repr=False)

    def find_forge(self, remote: str) -> Forge | None:
        """The forge that a remote lies on; None without a token. Raises ForgeUnknown."""
        from providers.forge import forge_of_remote

        return forge_of_remote(remote, self.forge_token, self.forge) if self.forge_token else None


NO_PROPOSALS = ProposalSettings()
