"""Real machines for tests. `fixtures.py` has what tests ask for; README.md says what it needs and costs."""
