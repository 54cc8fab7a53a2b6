"""What runs on the machine that is asked for its health: standard library of Python 3.8 or newer, only
reading."""
