"""Plugins of Ansible that choose how tasks are run on nodes."""
