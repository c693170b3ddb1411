"""What is read off a finished fit to be looked at: tables of clusters, samples of rows, layouts."""
