"""Clusters that continue those of an earlier fit: matching, numbers and names."""

from bigsmic.continuity.match import Match

__all__ = ["Match"]
