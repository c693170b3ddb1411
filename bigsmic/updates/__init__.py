"""Results and the archives that they are of: which rows were fitted, and what has come after them."""
