"""Neighbour search, its cells, and the weighted graph that comes of it."""
