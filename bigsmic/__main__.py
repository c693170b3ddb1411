"""``python -m bigsmic`` is the command ``bigsmic``."""

from bigsmic.cli.main import main

main()
