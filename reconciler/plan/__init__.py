"""Deciding: desired against actual gives a Plan, and nothing else is read. `make.py` is the one entry.

`requests` and `snapshot` turn documents and records into the planner's words, `decide` says what each
session needs, `place` is asked for all of them at once, `actions` makes the answer into actions, `graph`
orders them. Who only looks takes what it needs from one module here, and no planner is loaded for it.
"""
