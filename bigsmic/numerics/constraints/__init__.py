"""Must-links and cannot-links: closure, consistency, operator, propagation."""
