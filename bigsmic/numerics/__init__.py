"""Pure functions of arrays: they know neither Dask nor Zarr."""
