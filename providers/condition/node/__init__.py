"""What looks at a node, on it, with nothing but Python 3.8: sent by `providers.machines.remote_modules`."""
