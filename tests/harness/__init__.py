"""How the tests run: in which order and side by side (`order.py`), where their time goes (`times.py`), and
what labs say to both (`labs.py`)."""
