"""`Hardware` → formats that other tools read: one module per format. Pure."""
