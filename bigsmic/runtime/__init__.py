"""Execution of fits of any method: context of the tasks, job, plan, progress, diagnostics."""
