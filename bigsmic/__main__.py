"""``python -m bigsmic`` is the command ``bigsmic``."""

from bigsmic.cli import main

main()
