"""The methods by name, and what is asked of whichever it is; :mod:`bigsmic.methods` says what each module offers.

Modules are loaded by name, so that results, predictions and stages can use the method of a run from below it.
"""

import importlib

import numpy as np

from bigsmic.errors import InputError
from bigsmic.spelling import refuse_unknown

DEFAULT = "smic"
MODULES = {
    "smic": "bigsmic.methods.smic.method",
    "3smic": "bigsmic.methods.semisupervised",
    "kernel_rim": "bigsmic.methods.kernel_rim",
    "mic": "bigsmic.methods.mic",
    "mspc": "bigsmic.methods.mspc",
    "mwca": "bigsmic.methods.mwca",
    "rim": "bigsmic.methods.rim.method",
}
"""Where each method lives. A module is loaded when the method is asked for."""


def load(name):
    """Module of a method.

    Raises
    ------
    InputError
        There is no such method.
    """
    if not isinstance(name, str) or name not in MODULES:
        raise InputError(f"method: got {name!r}; use one of {', '.join(MODULES)}")
    return importlib.import_module(MODULES[name])


def of_stored(settings):
    """Module of the method that made a run, from the settings stored with it; runs that name none are SMIC's."""
    return load(settings.get("method", DEFAULT))


def of(settings):
    """Module of the method that some settings are of."""
    return load(settings.method)


def settings(name, c, given, others=()):
    """Settings of a method from what the caller gave.

    Parameters
    ----------
    name : str
    c : int, None, or what else the method makes of a number of clusters
    given : dict
        Options by name.
    others : iterable of str
        Names that the caller takes for itself: one of them may have been meant.

    Raises
    ------
    OptionError
        An option of another method, or of none.
    InputError
        A value that cannot be used.
    """
    kind, taken = load(name), options(name)
    refuse_unknown(name, given, taken, {*taken, *others}, _meant)
    return kind.Settings.of(c, **{key: value for key, value in given.items() if key not in kind.SIDE_INPUTS})


def options(name):
    """Names of the options of a method, a set."""
    kind = load(name)
    return {*kind.Settings.names(), *kind.SIDE_INPUTS}


def _meant(option):
    """What an option can be that the method does not have."""
    if option in ("n_clusters", "n_components", "k", "n_classes"):
        return "the number of clusters is c="
    if other := [name for name in MODULES if option in options(name)]:
        return f"it is an option of method {' and '.join(map(repr, other))}"
    return ""


def admit(settings, given, n_rows, storage_options=None):
    """Settings and the arrays that came beside the rows, read and checked where the method says how.

    Parameters
    ----------
    settings : MethodSettings
    given : dict
        Options by name.
    n_rows : int
    storage_options : dict, optional
        For file systems behind URLs.

    Returns
    -------
    settings : MethodSettings
    beside : dict of str to ndarray
    """
    kind = of(settings)
    if hasattr(kind, "admit"):
        return kind.admit(settings, given, n_rows, storage_options)
    return settings, {name: np.asarray(given[name]) for name in kind.SIDE_INPUTS if given.get(name) is not None}
