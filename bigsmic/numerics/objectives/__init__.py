"""Objectives of methods other than SMIC, and their optimisers."""
