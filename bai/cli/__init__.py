"""The command line: `main.py` is the way in, `commands/` has one module per command.

`failure.py` turns errors into messages.
"""
