"""Windows of recordings and their features: functions of arrays, independent for each window."""
