"""What runs on a node with GPUs: nothing but Python 3.8, sent by `providers.machines.remote_modules`."""
