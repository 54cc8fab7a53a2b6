"""Files to plain values. `sources` lists the files of a directory or (`git_source`) a commit; read
`yaml_reader` first: bytes to documents, with every problem's place. `sops_files` and `strict_json` read
other formats. Whoever needs git runs it through `git_process`; `git_objects` has what is often asked.
"""
