"""RIM: clusters by an unsupervised linear classifier."""
