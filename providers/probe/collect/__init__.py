"""The part of the probe that runs on the machine itself: standard library and the pynvml that travels with
it, nothing else.
"""
