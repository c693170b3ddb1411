"""Calls that are killed between what they have written and what they would write next."""

from contextlib import contextmanager

import pytest

from bigsmic.features import archive as extending


@contextmanager
def killed_at_third_commit():
    """Have what extends windows be killed where it would note its third piece."""
    commit, calls = extending._Call._commit, []

    def killed(self, *found):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        commit(self, *found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extending._Call, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            yield
