"""Nodes over SSH: one connection each, on which commands, files and sockets travel side by side.

Read `route.py` (where and how, from documents and ~/.ssh/config), `trust.py` (host keys), `transport.py` (a
connection, unix sockets through it), `machine.py` (what providers use).
"""
