"""Clusters of one fit that continue those of an earlier one: found, numbered and named."""

from bigsmic.continuity.match import Match

__all__ = ["Match"]
