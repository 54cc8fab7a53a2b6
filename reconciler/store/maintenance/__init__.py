"""What is done to a store as a whole: its file is made (`files.py`, `new_store.py`), brought up to date
(`migrate.py`, begin there), copied and restored (`backup.py`), moved elsewhere (`move.py`), or set aside when
it cannot be used (`quarantine.py`)."""
