"""Nodes as bai reaches them: commands, files and sockets. Read `base` first (`Machine`), then `connections`.

`local` is this machine, `ssh` another one; `remote_modules` runs Python of this package on a node,
`reachability` finds out whether it can be used, `terminal` joins the caller's terminal to what runs there.
"""
