"""Views of a finished fit: tables of clusters, samples of rows, layouts."""
