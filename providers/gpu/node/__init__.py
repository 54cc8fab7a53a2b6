"""What runs on a node with GPUs: Python 3.8 or newer and nothing else, sent over by `providers.remote`."""
