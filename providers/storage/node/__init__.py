"""What runs on the node that holds the data: Python 3.8 or newer and nothing else, sent over by
`providers.machines.remote_modules`.

`walk` goes from a root to a folder without following links, `mounts` says what file system is there, `quota`
limits a folder, `usage` counts it, `trash` moves it aside; `main` answers requests.
"""
