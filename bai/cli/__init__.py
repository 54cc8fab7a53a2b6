"""The command line: read `main` first; `commands/` has one module per command.

Commands parse options and call: what they do is in the folders beside them, by subject. `error_messages`
turns errors into text, and all printing goes through `output`.
"""
