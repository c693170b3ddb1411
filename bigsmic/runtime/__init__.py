"""What every method's fit needs while it runs: context, job, plan, progress, diagnostics."""
