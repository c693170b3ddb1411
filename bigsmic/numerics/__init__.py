"""Pure functions of arrays, without Dask and Zarr."""
