"""Windows of recordings and their features: functions of arrays, each window for itself."""
