"""bigsmic as a clustering method of SpikeInterface.

SpikeInterface needs zarr < 3 and bigsmic zarr >= 3, so that they cannot share an environment. Copy this file to the
environment of SpikeInterface. It imports neither zarr nor bigsmic, and runs ``bigsmic`` as a command in its own
environment::

    import bigsmic_clustering  # this file, copied
    from spikeinterface.sortingcomponents.clustering import find_clusters_from_peaks

    bigsmic_clustering.register()
    labels_set, labels = find_clusters_from_peaks(
        recording, peaks, method="bigsmic", method_kwargs={"command": "/opt/bigsmic/bin/bigsmic"}
    )

Written for, and tested with, SpikeInterface 0.105.
"""

import argparse
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 16 << 20
"""Number of features that are copied at once."""
UNINSTALLED = (
    "bigsmic runs in an environment of its own: python -m venv DIR && DIR/bin/pip install bigsmic, then "
    "method_kwargs={'command': 'DIR/bin/bigsmic'}"
)
OWN_OPTIONS = ("--out", "-o", "--rows")
"""Options of which the labels would be looked for in vain, or be fewer than peaks."""
OF_RUN = 5
"""Exit code of the command if a run is of other rows or settings, or cannot be read."""
OTHER_RUN = "; the folder has runs of other peaks or parameters, or damaged ones: give another folder="
OF_THIS_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME")
"""Variables that would make another environment load libraries of this one."""


class BigsmicClustering:
    """Clusters of peaks that density valleys separate from each other, found by ``bigsmic fit``.

    Principal components of the waveforms on the channels around each peak go to ``.npy`` files, one for each group of
    neighbouring channels, and each is clustered by itself, in bounded memory. The number of clusters is found. Clusters
    whose templates are alike are then merged by SpikeInterface, as in its own methods: valleys also part peaks that
    were detected a sample apart, and a neuron that two groups of channels see is in both.
    """

    name = "bigsmic"
    need_noise_levels = False
    _default_params: ClassVar[dict[str, Any]] = {
        "command": "bigsmic",
        "options": [],
        "noise": False,
        "peaks_svd": {"n_components": 5, "ms_before": 0.5, "ms_after": 1.5, "radius_um": 60.0},
        "max_channels": 32,
        "min_cluster_size": 20,
        "merge_from_templates": {"similarity_thresh": 0.8, "num_shifts": 3, "use_lags": True},
        "folder": None,
        "seed": 0,
        "verbose": True,
    }
    params_doc = """
        command : The bigsmic command of its own environment: its name on PATH, its path, or a list of words.
        options : Further words for `bigsmic fit`, such as ["--memory-limit", "4GiB", "--threads", "4"], or ["-c", "12"]
                  for a number of clusters in every group of channels; one with fewer peaks is one cluster.
        noise : If True, peaks that lie out of all clusters are in none: label -1.
        peaks_svd : params for peak SVD features extraction. See
                    spikeinterface.sortingcomponents.waveforms.peak_svd.extract_peaks_svd
        max_channels : Channels whose peaks are clustered together at most; more are cut along the probe.
        min_cluster_size : Peaks of smaller clusters, and of groups with fewer, are in none: label -1.
        merge_from_templates : params for the merging of clusters whose templates are alike, None for none. See
                    spikeinterface.sortingcomponents.clustering.merging_tools.merge_peak_labels_from_templates
        folder : Where features and runs are kept, and an interrupted fit resumes; a temporary one by default.
        seed : Of the SVD and of bigsmic; equal seeds give equal labels.
        verbose : If True, print information during the process.
    """

    @classmethod
    def main_function(
        cls, recording: Any, peaks: NDArray[Any], params: Mapping[str, Any], job_kwargs: Any = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
        """Cluster peaks.

        Parameters
        ----------
        recording : BaseRecording
        peaks : ndarray, shape (n,)
            With fields ``channel_index``, ``sample_index``, ``segment_index``.
        params : dict
            As of ``_default_params``.
        job_kwargs : dict, optional
            Of SpikeInterface, for the extraction of features.

        Returns
        -------
        labels_set : ndarray of int64
            Empty if there are no peaks; `more` then lacks the features.
        peak_labels : ndarray of int64, shape (n,)
            -1 for none.
        more : dict
            ``svd_model``, ``peaks_svd``, ``peak_svd_sparse_mask``, and ``groups``: for each group of channels, those
            channels and what bigsmic says of the number of clusters.

        Raises
        ------
        ValueError
            A parameter is unknown, or none that the method can take.
        RuntimeError
            The command failed; the message has what it said.
        """
        params = _checked(params, cls._default_params)
        command, given = _found(params["command"]), params["folder"]
        with nullcontext(given) if given is not None else TemporaryDirectory(prefix="bigsmic-peaks-") as folder:
            return _cluster(recording, peaks, params, job_kwargs or {}, _Runner(command, Path(folder), params))


def register() -> None:
    """Register the method ``bigsmic`` with SpikeInterface."""
    from spikeinterface.sortingcomponents.clustering.method_list import clustering_methods

    clustering_methods[BigsmicClustering.name] = BigsmicClustering


def _cluster(
    recording: Any, peaks: NDArray[Any], params: Mapping[str, Any], job_kwargs: Any, runner: "_Runner"
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
    if not len(peaks):
        return np.empty(0, np.int64), np.empty(0, np.int64), {"groups": []}
    features, mask, model = _features(recording, peaks, params, job_kwargs, runner.folder)
    groups = channel_groups(recording.get_channel_locations(), params["max_channels"])
    labels, facts = np.full(len(peaks), -1, np.int64), []
    for g, channels in enumerate(groups):
        rows = np.flatnonzero(np.isin(peaks["channel_index"], channels))
        if len(rows) < max(2, params["min_cluster_size"]):
            continue
        path = runner.folder / f"group{g}.npy"
        write_features(path, features, peaks["channel_index"], rows, mask)
        found, fact = runner.labels(path)
        labels[rows] = np.where(found < 0, -1, found + labels.max() + 1)
        facts.append({"channels": channels.tolist(), "peaks": len(rows)} | fact)
        if params["verbose"]:
            print(f"bigsmic: {len(rows)} peaks on {len(channels)} channels. {fact['sentence']}")  # noqa: T201
    if params["merge_from_templates"] is not None and labels.max() > 0:
        labels = _merged(recording, peaks, labels, params, (model, features, mask))
    labels = without_small(labels, params["min_cluster_size"])
    more = {"svd_model": model, "peaks_svd": features, "peak_svd_sparse_mask": mask, "groups": facts}
    return np.unique(labels[labels >= 0]), labels, more


def _features(recording: Any, peaks: Any, params: Mapping[str, Any], job_kwargs: Any, folder: Path) -> Any:
    """Components of every peak on the channels around its own, on disk; the channels around each; the SVD."""
    from spikeinterface.sortingcomponents.waveforms.peak_svd import extract_peaks_svd

    folder.mkdir(parents=True, exist_ok=True)
    options = {"seed": params["seed"], "folder": folder, "job_kwargs": job_kwargs} | params["peaks_svd"]
    return extract_peaks_svd(recording, peaks, **options)


def _merged(recording: Any, peaks: Any, labels: Any, params: Mapping[str, Any], svd: tuple[Any, ...]) -> Any:
    """Labels after merging clusters with similar templates, as in SpikeInterface's own methods."""
    from spikeinterface.sortingcomponents.clustering.merging_tools import merge_peak_labels_from_templates
    from spikeinterface.sortingcomponents.clustering.tools import get_templates_from_peaks_and_svd

    times = (params["peaks_svd"]["ms_before"], params["peaks_svd"]["ms_after"])
    templates, mask = get_templates_from_peaks_and_svd(recording, peaks, labels, *times, *svd)[:2]
    ids, array = templates.unit_ids, templates.templates_array
    return merge_peak_labels_from_templates(peaks, labels, ids, array, mask, **params["merge_from_templates"])[0]


# -- parameters


def _checked(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with defaults; refuses those that would be ignored, or fail after features were extracted."""
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise ValueError(f"method_kwargs: got {unknown}; bigsmic has {sorted(defaults)}")
    params = {**defaults, **given}
    if not isinstance(params["peaks_svd"], Mapping):
        raise ValueError(f"peaks_svd: got {params['peaks_svd']!r}; give a dict, such as {{'n_components': 5}}")
    params["peaks_svd"] = defaults["peaks_svd"] | dict(params["peaks_svd"])
    if params["peaks_svd"].get("motion_aware"):
        raise ValueError("peaks_svd: got motion_aware=True, which moves peaks to other channels; correct the recording")
    for name, least in (("max_channels", 1), ("min_cluster_size", 0), ("seed", 0)):
        value = params[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name}: got {value!r}; give an integer of at least {least}")
    for name in ("noise", "verbose"):  # the text "off" would be true
        if not isinstance(params[name], bool | np.bool_):
            raise ValueError(f"{name}: got {params[name]!r}; give True or False")
    merging = params["merge_from_templates"]
    if not (merging is None or isinstance(merging, Mapping)):
        raise ValueError(f"merge_from_templates: got {merging!r}; give a dict, or None for no merging")
    _refuse_options(params["options"])
    return params


def _refuse_options(words: Any) -> None:
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise ValueError(f"options: got {words!r}; give a list of words, such as ['--threads', '4']")
    taken = [str(word) for word in words if str(word).partition("=")[0] in OWN_OPTIONS]
    if taken:
        raise ValueError(f"options: got {taken}, which the method gives itself; leave {', '.join(OWN_OPTIONS)} out")


def asked_clusters(options: Sequence[str]) -> int:
    """Number of clusters in words for `bigsmic fit`; 0 if there is none, or none that it takes."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-c", "--clusters", type=int, default=0)
    try:
        found: int = parser.parse_known_args(options)[0].clusters
    except argparse.ArgumentError:  # of which the command says what is wrong
        return 0
    return found


# -- arrays


def channel_groups(locations: NDArray[Any], max_channels: int) -> list[NDArray[np.int64]]:
    """Groups of neighbouring channels, cut along the longest axis of the probe.

    Parameters
    ----------
    locations : ndarray, shape (channels, 2 or 3)
    max_channels : int
        In a group.

    Returns
    -------
    groups : list of ndarray of int64
        Every channel is in one; their numbers of channels differ by at most 1.
    """
    axis = int(np.argmax(np.ptp(locations, axis=0)))
    order = np.argsort(locations[:, axis], kind="stable")
    return [np.sort(part) for part in np.array_split(order, -(-len(order) // max_channels))]


def write_features(path: Path, features: Any, peak_channels: Any, rows: Any, mask: NDArray[np.bool_]) -> None:
    """Write the features of some peaks as rows of a ``.npy`` file, block by block.

    A row has the components on every channel that a peak of these rows reaches, zero where this peak does not.

    Parameters
    ----------
    path : Path
        Overwritten.
    features : array_like of float32, shape (n, components, sparse channels)
        Those of peak i are on the channels ``flatnonzero(mask[peak_channels[i]])``.
    peak_channels : ndarray of int, shape (n,)
    rows : ndarray of int64, shape (r,)
        Peaks to write.
    mask : ndarray of bool, shape (channels, channels)
    """
    reached = np.flatnonzero(mask[np.unique(peak_channels[rows])].any(axis=0))
    place = np.full(mask.shape[0], -1)
    place[reached] = np.arange(len(reached))
    width = features.shape[1] * len(reached)
    step = max(1, BLOCK_BYTES // (4 * width))
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), width)}
        np.lib.format.write_array_header_1_0(file, header)
        for lo in range(0, len(rows), step):
            part = rows[lo : lo + step]
            file.write(_aligned(np.asarray(features[part]), peak_channels[part], mask, place, len(reached)).data)


def _aligned(features: Any, peak_channels: Any, mask: Any, place: Any, n_reached: int) -> NDArray[np.float32]:
    """Features (b, components, sparse channels) on one set of channels: (b, components * reached), float32."""
    found = np.zeros((len(features), features.shape[1], n_reached), "<f4")
    for channel in np.unique(peak_channels):
        own, there = np.flatnonzero(mask[channel]), peak_channels == channel
        found[np.ix_(there, range(features.shape[1]), place[own])] = features[there][:, :, : len(own)]
    return found.reshape(len(features), -1)


def without_small(labels: NDArray[np.int64], min_size: int) -> NDArray[np.int64]:
    """Labels with -1 in place of labels with fewer rows than `min_size`."""
    found, counts = np.unique(labels, return_counts=True)
    return np.where(np.isin(labels, found[counts < min_size]), -1, labels)


# -- the command


def _found(command: str | Path | Sequence[str]) -> list[str]:
    """The command as a list of words; raises an error with instructions if it is not installed."""
    words = [command] if isinstance(command, str | Path) else list(command)
    if not words:
        raise ValueError("command: got no words; give the path of bigsmic, or a list that begins with it")
    path = shutil.which(os.fspath(words[0]))
    if path is None:
        raise FileNotFoundError(f"command: {words[0]!r} does not exist, and is not on PATH; {UNINSTALLED}")
    return [path, *(os.fspath(word) for word in words[1:])]


class _Runner:
    """Runs bigsmic on files of features.

    Parameters
    ----------
    command : list of str
    folder : Path
        For features, runs and labels.
    params : dict
        Of the method.
    """

    def __init__(self, command: list[str], folder: Path, params: Mapping[str, Any]):
        self.command, self.folder = command, folder.absolute()  # one that begins with - would be read as an option
        noise = "on" if params["noise"] else "off"
        self._options = [
            "--noise",
            noise,
            "--scale",
            "none",
            "--seed",
            str(params["seed"]),
            *map(str, params["options"]),
        ]

    def labels(self, path: Path) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Labels of the rows of a file, -1 for none, and the evidence for the number of clusters.

        Peaks that are fewer than the clusters asked for are one cluster, as SpikeInterface's methods leave few unsplit.
        """
        n, asked = np.load(path, mmap_mode="r").shape[0], asked_clusters(self._options)
        if n < asked:
            sentence = f"{n} peaks cannot be {asked} clusters, as options asks for, and are one."
            warnings.warn(f"bigsmic: {path.stem}: {sentence} Ask for fewer, or leave out -c", stacklevel=2)
            return np.zeros(n, np.int64), {"n_clusters": 1, "sentence": sentence}
        run, out = str(path.with_suffix(".run.zarr")), path.with_suffix(".labels.npy")
        fit = self._run("fit", str(path), "--out", run, *self._options)
        sentence = (fit.get("valleys") or {}).get("sentence", f"Clusters: {fit['n_clusters'] or 1}.")
        fact = {"n_clusters": fit["n_clusters"] or 1, "sentence": sentence}
        if fit["n_clusters"] is None:  # no valleys: one cluster
            return np.zeros(n, np.int64), fact
        out.unlink(missing_ok=True)
        self._run("export", run, str(out), "--columns", "label")
        return np.load(out)["label"].astype(np.int64), fact

    def _run(self, *words: str) -> dict[str, Any]:
        """The JSON document of a command; raises an error with its message if it fails."""
        environment = {name: value for name, value in os.environ.items() if name not in OF_THIS_ENVIRONMENT}
        command = [*self.command, *words, "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            other = OTHER_RUN if done.returncode == OF_RUN else ""
            raise RuntimeError(
                f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr.strip()}{other}"
            )
        try:
            document: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(
                f"{' '.join(command)} printed no JSON: {done.stdout.strip()[:200]!r}; is {command[0]} that of bigsmic?"
            ) from None
        return document
