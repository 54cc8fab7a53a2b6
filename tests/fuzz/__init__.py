"""Inputs of strangers, made up by a fuzzer: `targets.py` says what is fed and what must hold."""
