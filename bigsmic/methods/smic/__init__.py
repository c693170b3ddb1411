"""SMIC, the default method."""
