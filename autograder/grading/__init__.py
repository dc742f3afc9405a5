"""Many submissions at once: nbgrader's converter on the workers of a Dask cluster."""
