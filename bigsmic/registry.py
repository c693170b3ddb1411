"""The methods by name, and what is asked of whichever it is; :mod:`bigsmic.methods` says what each module offers.

Settings and modules are loaded by name, so that results, predictions and stages can use the method of a run from below
it, and the command line can read options without the rest.
"""

import importlib

import numpy as np

from bigsmic.errors import InputError
from bigsmic.spelling import refuse_unknown

DEFAULT = "smic"
BUILT_IN = {
    "smic": "bigsmic.settings.smic:Settings",
    "3smic": "bigsmic.settings.semisupervised:Settings",
    "rim": "bigsmic.settings.rim:Settings",
    "kernel_rim": "bigsmic.settings.kernel_rim:Settings",
    "mic": "bigsmic.settings.mic:Settings",
    "mspc": "bigsmic.settings.mspc:Settings",
    "mwca": "bigsmic.settings.mwca:Settings",
}
"""Settings of each method, which say what module has the rest."""


def names():
    """Names of the methods."""
    return tuple(BUILT_IN)


def settings_of(name):
    """Settings class of a method, which is loaded without the rest of it.

    Raises
    ------
    InputError
        There is no such method.
    """
    if not isinstance(name, str) or name not in BUILT_IN:
        raise InputError(f"method: got {name!r}; use one of {', '.join(names())}")
    module, _, attribute = BUILT_IN[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def load(name):
    """Module of a method.

    Raises
    ------
    InputError
        There is no such method.
    """
    return of(settings_of(name))


def of_stored(settings):
    """Settings class of the method of stored settings; those that name none are SMIC's."""
    return settings_of(settings.get("method", DEFAULT))


def of(settings):
    """Module of the method that some settings are of."""
    kind = settings if isinstance(settings, type) else type(settings)
    return importlib.import_module(vars(kind).get("home") or kind.__module__)


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
    kind, taken = settings_of(name), options(name)
    refuse_unknown(name, given, taken, {*taken, *others}, _meant)
    return kind.of(c, **{key: value for key, value in given.items() if key not in kind.side_inputs})


def options(name):
    """Options of a method by name, arrays beside the rows among them."""
    kind = settings_of(name)
    return {**kind.options(), **kind.side_inputs}


def _meant(option):
    """What an option can be that the method does not have."""
    if option in ("n_clusters", "n_components", "k", "n_classes"):
        return "the number of clusters is c="
    if other := sorted(name for name in names() if option in options(name)):
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
    return settings, {name: np.asarray(given[name]) for name in settings.side_inputs if given.get(name) is not None}
