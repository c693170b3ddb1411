"""Settings of kernel RIM."""

import numbers
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from bigsmic.errors import InputError
from bigsmic.settings import mic, rim, sequences
from bigsmic.settings.options import FUNCTION, INTEGER, INTEGERS, NUMBER_OR_WORD, POSITIVE, option
from bigsmic.settings.smic import BANDWIDTH_HELP, SCALE_HELP, SCALES
from bigsmic.validation import brief
from bigsmic.weight_functions import identity_of

GRAPH = "local_scaling"
GRAPH_REG = 0.5  # over the number of rows, as in MIC


@dataclass(frozen=True)
class Settings(rim.Settings):
    """Settings of a fit by kernel RIM; further fields are those of RIM."""

    method: ClassVar[str] = "kernel_rim"
    home: ClassVar[str | None] = "bigsmic.methods.kernel_rim"

    reg: float | str | None = option(
        None,
        NUMBER_OR_WORD,
        help=rim.Settings.options()["reg"].help + " 4/N is halved while a single category contains every row. 0.5/N "
        "with local_scaling.",
    )
    scale: str | None = option("auto", choices=SCALES, help=SCALE_HELP)
    kernel: str | Callable[..., Any] = option(
        "rbf",
        FUNCTION,
        help="""A kernel of scikit-learn by name, such as rbf or laplacian; local_scaling; precomputed. Or a function
        ``k(X, Y)`` of scaled rows. "precomputed": the rows are values of a kernel, (n, n), and in predictions those
        with the fitted rows, (m, n). "local_scaling": on SMIC's neighbour graph, from a spectral start, at one
        t.""",
    )
    length_scale: float | None = option(
        None,
        POSITIVE,
        help="""Length scale of a Gaussian or Laplacian kernel, for scaled rows; the median distance by default. "rbf"
        is ``exp(-|x - y|^2 / (2 l^2))``, "laplacian" ``exp(-|x - y|_1 / l)``.""",
    )
    approximation: str = option(
        "nystrom",
        choices=("nystrom", "fourier"),
        help="Features of a kernel: from landmarks, or random. Random ones are for rbf only.",
    )
    n_components: int = option(
        256,
        INTEGER,
        least=1,
        help="Landmarks, n of which are exact, or random features; local_scaling has none.",
    )
    t: Any = option(7, INTEGERS, help="Neighbour number of local_scaling. MLMI chooses among several.")
    bandwidth: float = option(2.0, POSITIVE, help=BANDWIDTH_HELP + " For local_scaling only.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.t, numbers.Integral):
            object.__setattr__(self, "t", sequences.neighbor_numbers(self.t))
        self._check_kernel()
        if self.approximation == "fourier" and self.kernel != "rbf":
            raise InputError(f"approximation: 'fourier' is for the kernel 'rbf', got {self.kernel!r}; use 'nystrom'")
        if self.kernel == "precomputed" and self.scale is not None:
            object.__setattr__(self, "scale", None)  # values of a kernel are not scaled
        if self.kernel == GRAPH:
            self._check_graph()

    def _check_kernel(self) -> None:
        from bigsmic.numerics.objectives.kernel_features import KERNELS

        if not callable(self.kernel) and self.kernel not in (*KERNELS, "precomputed", GRAPH, "callable"):
            raise InputError(
                f"kernel: got {brief(self.kernel)}; use a function, 'precomputed', 'local_scaling', or one of {KERNELS}"
            )

    def _check_graph(self) -> None:
        """Refuse options that the ascent on a graph lacks."""
        plain = Settings()
        beside = [name for name in ("prior", "n_init_categories") if getattr(self, name) is not None]
        others = ("solver", "tau", "polish", "n_epochs", "batch_size", "learning_rate", "length_scale")
        beside += [name for name in others if getattr(self, name) != getattr(plain, name)]
        if beside:
            raise InputError(f"kernel: 'local_scaling' has no {beside[0]}; leave it out, or use another kernel")
        if self.n_clusters is None or self.reg == "lsmi":
            raise InputError(
                "kernel: 'local_scaling' needs n_clusters, and a number or a share such as '0.5/N' for reg"
            )
        _ = self.on_graph(1000)

    def check_shape(self, n: int, d: int) -> None:
        """Refuse values of a kernel that are not those between all rows.

        Raises
        ------
        InputError
        """
        if self.kernel == "precomputed" and n != d:
            raise InputError(
                f"kernel: 'precomputed' needs the kernel's values between all rows, (n, n), got ({n}, {d})"
            )

    @property
    def linear(self) -> Any:
        """Settings of RIM on the features."""
        return rim.Settings(**{field.name: getattr(self, field.name) for field in fields(rim.Settings)})

    def on_graph(self, n: int) -> Any:
        """Settings of MIC for n rows."""
        reg = GRAPH_REG if self.reg is None else self.strength(n) * n
        return mic.Settings(
            self.n_clusters or 1,
            t=self.t,
            reg=reg,
            scale=self.scale,
            bandwidth=self.bandwidth,
            max_iter=self.max_iter,
            seed=self.seed,
        ).fitted_to(n)[0]

    @property
    def block_columns(self) -> int:
        """Columns for which blocks of rows are sized."""
        return 1 if self.kernel == GRAPH else self.n_components

    def identity(self) -> dict[str, int | str | None]:
        """JSON-like form by which settings are compared on resume."""
        if not callable(self.kernel):
            return super().identity()
        return replace(self, kernel="rbf").identity() | {"kernel": identity_of(self.kernel)}
