"""Clustering of rows on disk by squared-loss mutual information: Zarr in, labels and how sure they are out.

>>> import bigsmic
>>> result = bigsmic.fit("archive.zarr", c=33)  # doctest: +SKIP
>>> result.labels, result.posterior, result.scores  # doctest: +SKIP

Names are loaded when they are first used: importing the package brings in neither numba nor Dask nor Zarr.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "fit": "pipeline",
    "plan": "pipeline",
    "Result": "result",
    "SMIC": "estimators",
    "KernelRIM": "estimators_kernel",
    "MIC": "estimators_kernel",
    "MSPC": "estimators_family",
    "MWCA": "estimators_family",
    "RIM": "estimators_rim",
    "SemiSupervisedSMIC": "estimators_links",
    "msp_score": "separation",
    "lsmi": "information",
    "LSMIResult": "information",
    "mlmi": "likelihood",
    "MLMIResult": "likelihood",
    "BigsmicError": "errors",
    "ClusterError": "errors",
    "InputError": "errors",
    "PlanError": "errors",
    "RunError": "errors",
    "StorageError": "errors",
}

__all__ = [
    "MIC",
    "MSPC",
    "MWCA",
    "RIM",
    "SMIC",
    "BigsmicError",
    "ClusterError",
    "InputError",
    "KernelRIM",
    "LSMIResult",
    "MLMIResult",
    "PlanError",
    "Result",
    "RunError",
    "SemiSupervisedSMIC",
    "StorageError",
    "fit",
    "lsmi",
    "mlmi",
    "msp_score",
    "plan",
]

if TYPE_CHECKING:
    from bigsmic.errors import BigsmicError, ClusterError, InputError, PlanError, RunError, StorageError
    from bigsmic.estimators import SMIC
    from bigsmic.estimators_family import MSPC, MWCA
    from bigsmic.estimators_kernel import MIC, KernelRIM
    from bigsmic.estimators_links import SemiSupervisedSMIC
    from bigsmic.estimators_rim import RIM
    from bigsmic.information import LSMIResult, lsmi
    from bigsmic.likelihood import MLMIResult, mlmi
    from bigsmic.pipeline import fit, plan
    from bigsmic.result import Result
    from bigsmic.separation import msp_score


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'bigsmic' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bigsmic.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES})
