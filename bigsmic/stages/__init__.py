"""Stages of a fit: each reads artifacts of earlier stages and writes its own.

The docstring of a stage's module begins with the name of the stage in the run directory or, if it writes several, in
the plan of a fit. Most of these modules have ``run(job)``, which runs the blocks that the ledger lacks; their tasks are
functions of (context, block). Other modules have what several stages share, such as the specifications of labelings.
"""
