"""Telling people what happens: from passes and the store's events to messages, each sent about once.

`sight.py` takes from a pass what lasts; `gather.py` makes news of it and of the store's events; `boxes.py`
decides what goes out when; `message.py` writes it; `post.py` sends it; `herald.py` is the thread that does
all this beside the loop. What is known between runs is one value in the store (`state.py`).
"""
