"""One kernel's container, from its spec to its removal. Read `create` first, then `config` (pure): the spec
as the engine wants it. `edits` is what a container gets beyond its spec; `devices`, `gpu_share`, `home`,
`runtime_files` and `subpaths` each `prepare` theirs on the node, and release it.
"""
