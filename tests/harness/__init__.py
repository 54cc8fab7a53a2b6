"""How the tests run: in which order and side by side (`order.py`), and where their time goes (`times.py`)."""
