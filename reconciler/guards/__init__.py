"""What stands against carrying out a plan: protected resources, and what Policies ask for. `judge.py` is the
one entry; pure."""
