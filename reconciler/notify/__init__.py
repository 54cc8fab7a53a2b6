"""Telling people what happens: from cycles and the store's events to messages, each sent about once.

`conditions.py` takes from a cycle what lasts; `collect.py` makes news of it and of the store's events;
`throttle.py` decides what goes out when; `message.py` writes it; `delivery.py` sends it; `dispatcher.py` is
the thread that does all this beside the loop. What is known between runs is one value in the store
(`state.py`).
"""
