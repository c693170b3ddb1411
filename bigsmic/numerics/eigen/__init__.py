"""Thick-restart block Lanczos, and the block vectors that it works on."""
