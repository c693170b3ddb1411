"""One HTML file about a finished run: its settings, the clusters, and how far to trust them.

``document`` has the parts of a report, which methods use for their own sections; ``subject`` is the run that is
reported on, ``pages`` has a module for each section, ``rendering`` converts them to HTML, and ``writing`` writes the
file.
"""

from bigsmic.report.document import WIDTH, Command, Facts, Figure, Finding, Paragraph, Part, Section, Table

__all__ = ["WIDTH", "Command", "Facts", "Figure", "Finding", "Paragraph", "Part", "Section", "Table"]
