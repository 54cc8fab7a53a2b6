"""What one change of the documents does, and nothing else. `make.py` is the one entry.

The base is carried out in thought (`foresee.py`); what the head's plan then still changes is the change.
"""

from reconciler.review.build import Version, review
from reconciler.review.values import Place, Review

__all__ = ["Place", "Review", "Version", "review"]
