"""The model of each kind of document, a module per kind; `kind_registry` lists them. Read `session` first.
`parts` holds what several kinds have in common.
"""
