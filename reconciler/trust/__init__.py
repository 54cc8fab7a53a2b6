"""Which commits are followed: who signed them, and whose the paths are that they change.

`settings.py` reads what the owner of the cluster says, `commit_object.py` a commit's own bytes, `history.py`
asks git, `signatures.py` has GnuPG and OpenSSH verify, `owners.py` knows whose a path is (pure), and
`gate.py` puts them together: a commit passes, or the refusals say why not.
"""
