"""Rows of arrays of other libraries, such as h5py and xarray, one slice at a time."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import StorageError
from bigsmic.store import admission
from bigsmic.store.decoding import Decoding
from bigsmic.store.sources.base import BandedSource, kind_of, plain


class SlicedSource(BandedSource):
    """Rows of an array of another library, such as h5py or xarray, read one slice at a time.

    Parameters
    ----------
    array : array_like, shape (n, d)
        Has a NumPy dtype, and is read by ``array[lo:hi]``.
    """

    def __init__(self, array: Any) -> None:
        super().__init__(array, kind_of(array), 1)
        self._reading = threading.Lock()
        self._decoding = None
        if admission.is_file_array(array):
            self._decoding = Decoding.of(dict(array.attrs), np.dtype(array.dtype))
        if len(self.shape) == 2:
            self._height = min(admission.chunk_rows(array), max(1, self.shape[0]))

    @property
    def decoded(self) -> str:
        """Description of how stored numbers are decoded."""
        return str(self._decoding or "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the rows."""
        return self._decoding.dtype if self._decoding else super().dtype

    def describe(self) -> dict[str, int | str]:
        """Return what identifies the input besides its content."""
        return super().describe() | ({"decoded": self._decoding.describe()} if self._decoding else {})

    def _decode(self, lo: int, hi: int) -> NDArray[Any]:
        try:
            with self._reading:  # not every library is thread-safe
                rows = np.asanyarray(self.array[lo:hi])
        except Exception as error:
            raise StorageError(
                f"input: rows {lo}:{hi} of {self.name} could not be read ({type(error).__name__}: {error}); "
                "check the file behind it"
            ) from error
        return self._decoding(plain(rows, lo)) if self._decoding else plain(rows, lo)
