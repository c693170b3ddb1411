"""The sections that a report of any method has: a module each, with ``section(subject)``, None where it has nothing."""
