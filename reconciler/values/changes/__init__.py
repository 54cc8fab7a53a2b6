"""What differs between what is and what is to be (`change`), and why something is done about it (`cause`)."""
