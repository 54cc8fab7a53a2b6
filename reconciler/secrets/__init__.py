"""Values of secrets: those that documents name (`reader.py`, begin there), those that the owner names on the
command line (`operator_values.py`), and the seeds of sessions' key pairs (`session_keys.py`)."""
