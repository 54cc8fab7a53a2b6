"""Nodes over SSH: one connection each, on which commands, files and sockets travel side by side.

Read `machine` first (what providers use), then `route` (where and how, from documents and ~/.ssh/config),
`trust` (host keys), `transport` (a connection), `packets` (what OpenSSH has and paramiko lacks) and
`persistent` (made again when it broke).
"""
