"""Report sections of methods that are one module each: a module for each of them, with ``pages(result)``."""
