"""Archives, dask arrays and arrays in memory as rows that are read in blocks."""
