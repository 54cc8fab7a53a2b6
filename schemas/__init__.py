"""The resource model: what people write in git, as typed values.

Read `values/envelope.py` and one kind (`kinds/session.py`) first, then `loading/loader.py` for the walk from
bytes to a checked `Repository`. The folders, each importing from those before it only:

- `problems`: what is wrong and where, and every error of bai; `files`: bytes to plain values;
- `values`: the envelope, names and amounts; `hardware`: what a machine is; `expressions`: CEL;
- `profile`: what nodes are made to be, a section per Ansible role; `kinds`: the model of each kind;
- `images`: which image a session means, and what it asks for; `repository`: all resources, and how they
  belong together; `templates`: sessions filled in; `rules`: what documents must fulfil;
- `loading`: the walk through all of it.

`json` holds the published JSON Schemas, which `loading/json_schema.py` writes.
"""
