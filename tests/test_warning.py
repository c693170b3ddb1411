"""Warnings name the line of the call that they are about."""

import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from small_fits import BRIEF

import bigsmic
from bigsmic import SMIC, pipeline
from bigsmic.errors import BigsmicWarning, ConvergenceWarning
from bigsmic.features import windows

WIDE = np.random.default_rng(0).normal(size=(5, 60))
FEW_DIFFER = np.repeat(np.eye(3), 20, axis=0)


def line_of(call, category=BigsmicWarning):
    """File and line of the warnings that a call gives, one of them of a category."""
    with pytest.warns(category) as caught:
        call()
    (place,) = {(warned.filename, warned.lineno) for warned in caught}
    return place


def here():
    """The line that calls."""
    return __file__, sys._getframe(1).f_lineno


@pytest.mark.unit
def test_before_a_fit():
    assert line_of(lambda: bigsmic.plan(WIDE, 2)) == here()


def test_deep_in_a_fit():
    assert line_of(lambda: bigsmic.fit(FEW_DIFFER, 4, **BRIEF), ConvergenceWarning) == here()


def test_of_an_estimator_that_scikit_learn_calls():
    steps = make_pipeline(SMIC(4))
    assert line_of(lambda: steps.fit_predict(FEW_DIFFER), ConvergenceWarning) == here()


def test_within_a_context_manager(monkeypatch):
    monkeypatch.setattr(pipeline, "lies_in_memory", lambda location: True)
    assert line_of(lambda: bigsmic.fit(FEW_DIFFER, 3, memory_limit="2GiB", **BRIEF)) == here()


def test_of_other_functions(tmp_path):
    recording = np.zeros((5, 2), np.float32)
    assert line_of(lambda: windows(recording, 10, out=tmp_path / "windows")) == here()
