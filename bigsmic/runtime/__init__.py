"""Fits of any method while they run: context of the tasks, job, plan, progress, diagnostics."""
