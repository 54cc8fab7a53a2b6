"""The resource model: what people write in git, as typed values.

Read `envelope.py` and one kind (`session.py`) first, then `loader.py` for the walk from bytes to a checked
`Repository`: `reading` (YAML), `documents` (the model of a kind), `rules` (one document), `references` and
`belonging` (documents together). `canonical` gives the one normal form and its digest, `fmt` the one style,
`json_schema` what editors use. `profile` is what nodes are made to be: a section per Ansible role.
"""
