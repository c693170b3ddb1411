"""Results and their growing archives: fitted rows, and labels of later ones."""
