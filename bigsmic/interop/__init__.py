"""Fits of what other libraries hold, with the results where their users look for them.

Each module imports its library when it is used. ``spikeinterface_clustering`` imports nothing of bigsmic, and may be
copied into another environment.
"""
