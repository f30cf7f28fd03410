"""Readings in, events out. Uses the library by its public names and is never imported by it."""
