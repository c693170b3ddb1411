"""Fits of data in other libraries' objects, with results stored in these objects.

Each module imports its library when it is used. ``spikeinterface_clustering`` imports nothing of bigsmic, and may be
copied into another environment.
"""
