"""What one change of the documents does, and nothing else. `build.py` is the one entry.

The plan of the base is taken as carried out (`predicted_state.py`); what the plan of the head then still
changes is the change. `between_commits.py` reads the two from git. `preview.py` is a plan as far as
who is placed where, for who asks again and again.
"""

from reconciler.review.build import DocumentVersion, build_review
from reconciler.review.values import Disruption, Review

__all__ = ["Disruption", "DocumentVersion", "Review", "build_review"]
