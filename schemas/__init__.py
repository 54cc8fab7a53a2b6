"""The resource model: what people write in git, as typed values. Read `envelope.py` first, then one module
per kind."""
