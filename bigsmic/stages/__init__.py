"""Stages of a fit: each reads artifacts of those before it and writes its own.

A stage module has ``run(job)``, which does what the ledger lacks. Its tasks are functions of (context, block).
"""
