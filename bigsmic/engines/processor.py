"""Properties of processors on which the last bits of floating-point sums depend.

BLAS, numba and NumPy choose instructions by the processor that they detect, or by ``OPENBLAS_CORETYPE``,
``NUMBA_CPU_NAME`` and ``NPY_DISABLE_CPU_FEATURES``.
"""

import platform
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_CPUINFO = Path("/proc/cpuinfo")
_VECTORS = re.compile(r"\+((?:avx|fma|f16c|sse|neon|sve|asimd)[\w.-]*)")
"""Features that can change how a sum is computed."""


class Processor(NamedTuple):
    """Properties of a machine that determine the last bits of sums.

    Parameters
    ----------
    model : str
        Name of the processor; for messages only.
    blas : tuple of str
        Kernels that each BLAS has chosen.
    numba : str
        Processor that numba compiles for.
    vectors : tuple of str
        Vector extensions that numba uses.
    numpy : tuple of str
        Those that NumPy uses.
    """

    model: str
    blas: tuple[str, ...]
    numba: str
    vectors: tuple[str, ...]
    numpy: tuple[str, ...]

    @classmethod
    def here(cls) -> "Processor":
        """The processor of this process."""
        return _here()

    @property
    def bits(self) -> tuple[object, ...]:
        """Properties that two processors must share to compute the same bits."""
        return self[1:]

    def __str__(self) -> str:
        return f"{self.model} (BLAS {'/'.join(self.blas)}, numba {self.numba}, NumPy {' '.join(self.numpy[-3:])})"


@cache
def _here() -> Processor:
    import scipy.linalg  # noqa: F401 - numpy and scipy each have a BLAS, which is found only after it is loaded
    from numba.core.registry import cpu_target
    from threadpoolctl import threadpool_info

    blas = {found.get("architecture", "unknown") for found in threadpool_info() if found["user_api"] == "blas"}
    _, numba, features = cpu_target.target_context.codegen().magic_tuple()
    return Processor(_model(), tuple(sorted(blas)), numba, tuple(sorted(_VECTORS.findall(features))), _of_numpy())


def _of_numpy() -> tuple[str, ...]:
    try:  # printed by numpy.show_runtime(); there is no public name
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
    except ImportError:
        return ()
    return tuple(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


def _model() -> str:
    if _CPUINFO.exists() and (found := re.search(r"^model name\s*: (.*)$", _CPUINFO.read_text(), re.MULTILINE)):
        return found[1].strip()
    return platform.processor() or platform.machine()


def differences(here: "Processor", others: Sequence["Processor"]) -> str:
    """Describe the types of processors, if they do not all compute the same bits.

    Parameters
    ----------
    here : Processor
        Of this process.
    others : list of Processor
        One per worker.

    Returns
    -------
    text : str
        Empty if all compute the same bits.
    """
    workers = Counter(other.bits for other in others)
    one_of = {processor.bits: processor for processor in (*others, here)}
    if len(one_of) == 1:
        return ""
    counts = [f"{n} worker{'s' * (n > 1)} on {one_of[bits]}" for bits, n in workers.items()]
    alone = [f"this process on {here}"] if here.bits not in workers else []
    return "; ".join(counts + alone)
