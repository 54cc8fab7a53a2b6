"""What documents must fulfil beyond the types of their fields. `document_rules` judges one alone and is the
module to read first; `references` and `membership` judge them together; `warning_rules` only warns.
"""
