"""Nodes over SSH: one connection each, on which commands, files and sockets travel side by side.

Read `machine` first (what providers use), then `route` (where and how, from documents and ~/.ssh/config),
`trust` (host keys), `transport` (a connection, unix sockets through it) and `persistent` (made again when it
broke).
"""
