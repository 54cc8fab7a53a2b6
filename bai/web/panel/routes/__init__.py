"""One module of pages for each subject. None is part of the API's description: addresses are for people."""
