"""What the server itself answers about apps: the page that lets somebody in at one, and links to them."""
