"""Stages of a fit: each reads artifacts of earlier stages and writes its own.

A stage module has ``run(job)``, which runs the blocks that the ledger lacks. Its tasks are functions of (context,
block).
"""
