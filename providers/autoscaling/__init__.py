"""New nodes, asked for at whoever can bring some (`providers.abilities.AsksForNodes`): `values.py`."""
