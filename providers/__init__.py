"""Hands on the world, one folder per agent provider. Read `base.py` first: it is the seam every provider
implements."""
