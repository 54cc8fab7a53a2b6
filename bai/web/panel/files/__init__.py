"""Files of sessions and volumes: listed, fetched and sent through a browser."""
