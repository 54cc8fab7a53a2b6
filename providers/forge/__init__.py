"""Forges: where pull requests are opened and talked about. A comment that is kept up to date, and a commit's
status.

`base.py` is the seam, `github.py` (GitHub, Gitea, Forgejo) and `gitlab.py` speak to them, `ci.py` finds out
which pull request a pipeline runs for, `address.py` which repository there a git remote is.
"""

from providers.forge.address import forge_of_remote
from providers.forge.base import CommitState, Forge
from providers.forge.ci import PipelineRun, open_forge, run_from_environment

__all__ = ["CommitState", "Forge", "PipelineRun", "forge_of_remote", "open_forge", "run_from_environment"]
