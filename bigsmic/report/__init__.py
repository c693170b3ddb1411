"""One HTML file about a finished run: what ran, what was found, what to trust and what not.

``document`` has the parts that a report is made of, which methods use for sections of their own; ``subject`` is what is
reported on, ``pages`` has a module for each section, ``rendering`` makes HTML of them, and ``writing`` writes the file.
"""

from bigsmic.report.document import WIDTH, Command, Facts, Figure, Finding, Paragraph, Part, Section, Table

__all__ = ["WIDTH", "Command", "Facts", "Figure", "Finding", "Paragraph", "Part", "Section", "Table"]
