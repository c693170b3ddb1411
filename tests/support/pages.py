"""A report as its reader has it: parsed, with its text, its tables, and what a validator says."""

import re

from tinyhtml5.parser import HTMLParser

WITHOUT_DATE = re.compile(r"<time>.*?</time>")
OTHER_PLACES = re.compile(
    r'(?:src|href|action|data|poster)\s*=\s*"(?!#)|url\((?!#)|@import|<script|<link|<iframe', re.I
)
"""Whatever would load something, but for anchors of the page and of its figures."""


class Page:
    """A report.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path):
        with open(path, encoding="utf-8", newline="") as file:
            self.html = file.read()
        parser = HTMLParser(namespace_html_elements=False)
        self.tree = parser.parse(self.html)
        self.errors = parser.errors

    @property
    def undated(self):
        """The page without the time at which it was written."""
        return WITHOUT_DATE.sub("", self.html)

    @property
    def loads(self):
        """What would be asked for from somewhere else; images that are in the page are not."""
        return OTHER_PLACES.findall(re.sub(r'xlink:href="data:image/png;base64,[^"]*"', "", self.html))

    def text(self, name=None):
        """Text of a section, or of the whole page, without figures."""
        return " ".join(" ".join(self._texts(self.section(name) if name else self.tree.find(".//body"))).split())

    def _texts(self, node):
        if str(node.tag).endswith("svg"):
            return
        if node.text:
            yield node.text
        for child in node:
            yield from self._texts(child)
            if child.tail:
                yield child.tail

    def section(self, name):
        """Element of a section."""
        (found,) = [node for node in self.tree.iter("section") if node.get("id") == name]
        return found

    @property
    def sections(self):
        """Names of the sections, in their order."""
        return [node.get("id") for node in self.tree.iter("section")]

    def tables(self, name):
        """Tables of a section: a list of dicts of texts for each."""
        return [self._records(table) for table in self.section(name).iter("table")]

    def _records(self, table):
        heads = ["".join(cell.itertext()) for cell in table.iter("th")]
        rows = [["".join(cell.itertext()) for cell in row.iter("td")] for row in table.find("tbody")]
        return [dict(zip(heads, row, strict=True)) for row in rows]

    def findings(self, level):
        """Texts of the findings of a level."""
        kinds = (node for node in self.section("trust").iter("p") if node.get("class") == f"finding {level}")
        return [" ".join("".join(node.itertext()).split()) for node in kinds]

    def figures(self, name):
        """What the figures of a section say they show."""
        return [node.get("aria-label") for node in self.section(name).iter() if str(node.tag).endswith("svg")]

    @property
    def repeated_ids(self):
        """Identities that more than one element has."""
        found = [node.get("id") for node in self.tree.iter() if node.get("id")]
        return sorted({name for name in found if found.count(name) > 1})
