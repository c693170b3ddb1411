"""The sections of reports of all methods: a module each, with ``section(subject)``, which may return None."""
