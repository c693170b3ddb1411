"""Neighbour search in cells, and the weighted graph that results."""
