"""Checks of this machine and repository. Each really does what it says: `ok` means done and seen to work."""
