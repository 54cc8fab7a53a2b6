"""From a directory or commit to a checked `Repository`: `loader` is the walk and the module to read first,
`documents` makes one document a resource. `fmt` writes documents in one style, `json_schema` the published
schemas.
"""
