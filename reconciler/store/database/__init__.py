"""The database below the store: where it is (`address.py`), its tables (`tables.py`), connections and
transactions over SQLite and PostgreSQL (`engine.py`, begin there), their errors in words
(`database_errors.py`)."""
