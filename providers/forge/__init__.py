"""Forges: where pull requests are talked about. A comment that is kept up to date, and a commit's status.

`base.py` is the seam, `github.py` (GitHub, Gitea, Forgejo) and `gitlab.py` speak to them, `ci.py` finds out
which pull request a pipeline runs for.
"""

from providers.forge.base import Forge, State
from providers.forge.ci import Run, from_environment, open_forge

__all__ = ["Forge", "Run", "State", "from_environment", "open_forge"]
