"""bigsmic beside SpikeInterface's own clusterings, on a recording whose spikes are known.

    python spikeinterface_clusterings.py bigsmic_clustering.py --command BIGSMIC --channels 32 --units 20 --seconds 60

Runs in SpikeInterface's environment, with ``bigsmic/interop/spikeinterface_clustering.py`` or a copy of it; BIGSMIC is
the command in an environment of its own. Prints a line of JSON for each method: what SpikeInterface's comparison with
the true spikes counts, and what it took.
"""

import argparse
import importlib.util
import json
import resource
import time

import numpy as np
from spikeinterface.comparison import GroundTruthComparison
from spikeinterface.core import NumpySorting, generate_ground_truth_recording
from spikeinterface.sortingcomponents.clustering import find_clusters_from_peaks
from spikeinterface.sortingcomponents.peak_detection import detect_peaks

JOB = {"n_jobs": 1, "chunk_duration": "1s", "progress_bar": False}
PROBE = {
    "num_columns": 2,
    "xpitch": 20,
    "ypitch": 20,
    "contact_shapes": "circle",
    "contact_shape_params": {"radius": 6},
}


def main():
    """Compare the methods that were asked for."""
    asked = arguments()
    load(asked.module).register()
    recording, truth = simulated(asked)
    peaks = detect_peaks(
        recording,
        method="locally_exclusive",
        method_kwargs={"peak_sign": "neg", "detect_threshold": 5},
        job_kwargs=JOB,
    )
    for method in asked.methods.split(","):
        name, _, variant = method.partition("+")
        given = {"command": asked.command, "noise": variant == "noise"} if name == "bigsmic" else {}
        print(json.dumps({"method": method, "peaks": len(peaks)} | compared(recording, truth, peaks, name, given)))


def arguments():
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("module")
    parser.add_argument("--command", default="bigsmic")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--units", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--methods", default="bigsmic,bigsmic+noise,random-projections,iterative-isosplit,iterative-hdbscan"
    )
    return parser.parse_args()


def load(path):
    """The module of a path."""
    spec = importlib.util.spec_from_file_location("bigsmic_clustering", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulated(asked):
    """A recording in memory, and its spikes."""
    recording, truth = generate_ground_truth_recording(
        durations=[asked.seconds],
        num_channels=asked.channels,
        num_units=asked.units,
        sampling_frequency=30_000.0,
        generate_probe_kwargs=PROBE,
        generate_sorting_kwargs={"firing_rates": (3, 15), "refractory_period_ms": 4.0},
        seed=1,
    )
    return recording.save(format="memory", **JOB), truth


def compared(recording, truth, peaks, method, given):
    """What SpikeInterface counts of the clusters of a method."""
    start, cpu = time.perf_counter(), cpu_seconds()
    found, labels = find_clusters_from_peaks(recording, peaks, method=method, method_kwargs=given, job_kwargs=JOB)
    took = {"seconds": round(time.perf_counter() - start, 1), "cpu_seconds": round(cpu_seconds() - cpu, 1)}
    known = labels >= 0
    sorting = NumpySorting.from_samples_and_labels(
        [peaks["sample_index"][known]], [labels[known]], recording.sampling_frequency
    )
    comparison = GroundTruthComparison(truth, sorting, exhaustive_gt=True)
    means = comparison.get_performance(method="pooled_with_average")
    return {
        "units": len(found),
        "in_none": round(float(np.mean(~known)), 3),
        **{name: round(float(means[name]), 3) for name in ("accuracy", "recall", "precision")},
        "well_detected": int(comparison.count_well_detected_units(well_detected_score=0.8)),
        "false_positive": int(comparison.count_false_positive_units()),
        "redundant": int(comparison.count_redundant_units()),
        "overmerged": int(comparison.count_overmerged_units()),
    } | took


def cpu_seconds():
    """Of this process and of those that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
