"""What a machine is: the model (`model.py`) and, beside it, one importer per capture format."""
