"""What looks at a node, on it: nothing but Python 3.8 and its library, sent there by `providers.remote`."""
