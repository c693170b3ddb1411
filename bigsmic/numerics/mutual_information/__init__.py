"""Estimates of mutual information between rows and labels."""
