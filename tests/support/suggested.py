"""Runs the commands for a shell that messages suggest."""

import re
import subprocess
import sys


def run_suggested(message):
    """Run the Python command that a message ends with, as a shell runs it."""
    command = re.search(r'python (-c ".*")\Z', str(message))[1]
    subprocess.run(f"{sys.executable} {command}", shell=True, check=True)
