"""From eigenvectors to labels: rotation, consensus, local moving, calibration, metrics."""
