"""scikit-learn estimators, one for each method."""
