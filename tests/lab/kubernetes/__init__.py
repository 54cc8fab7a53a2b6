"""A real Kubernetes cluster: `lab.py` is where to begin, `fixtures.py` what tests ask for."""
