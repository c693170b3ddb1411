"""The archive that reports are made with."""

import pytest
import zarr


@pytest.fixture(scope="module")
def archive(blobs, tmp_path_factory):
    """Path of the rows of the blobs, in four chunks."""
    path = str(tmp_path_factory.mktemp("archive") / "rows.zarr")
    zarr.create_array(path, data=blobs[0], chunks=(200, 5))
    return path
