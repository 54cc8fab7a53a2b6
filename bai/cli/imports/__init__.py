"""Clusters that are there already, as a repository: its files (`files`), and pods as sessions (`adopt`)."""
