"""Where the values of secret stores are. `base.py` is the seam, `open.py` chooses; whether somebody may have
an entry is decided before, by `schemas/repository/declared_stores.py`."""
