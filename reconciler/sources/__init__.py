"""Where documents and the owner's own files come from. Read `source.py` first: a folder or a commit becomes
the desired state. `git_command.py` runs git for a remote; `owner_files.py` and `owner_stores.py` read what no
document may change."""
