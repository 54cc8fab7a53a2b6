"""Mutation testing: `changes` finds what can be changed, `reach` which tests run what, `trials` tries it."""
