"""Nightly jobs for a growing archive: labels of new rows, tests for drift, refits, reports, deletion of old runs.

:func:`nightly` does it for a job file, and :func:`check` tells beforehand what is wrong. ``job`` is what the file may
say, ``toml_file`` validates it line by line, ``checking`` what it refers to, ``journal`` is what a call leaves for the
next one, ``steps`` are what a night is made of, ``night`` does them in order, ``records`` has the table of all
nights, and ``wording`` names keys of the job file in messages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"checking": ["check"], "night": ["nightly"], "records": ["history"], "job": ["Job"]}
)
