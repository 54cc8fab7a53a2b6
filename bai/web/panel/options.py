"""What the owner of a server says of its pages."""

from __future__ import annotations

from dataclasses import dataclass

from bai.web.panel.proposals.settings import NO_PROPOSALS, ProposalSettings
from bai.web.request_limits import LARGEST_UPLOAD


@dataclass(frozen=True, slots=True)
class PanelOptions:
    """`cookie_secret` seals logins of browsers, the same for all replicas; `public_url`: where these reach
    the server, if it is said; `proposals`: what becomes of changes that people ask for; `largest_upload`:
    bytes of a file that a page sends."""

    cookie_secret: str = ""
    public_url: str = ""
    proposals: ProposalSettings = NO_PROPOSALS
    largest_upload: int = LARGEST_UPLOAD


DEFAULT_OPTIONS = PanelOptions()
