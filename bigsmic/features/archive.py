"""Archives of windows, and their extension by new windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from bigsmic.engines import choose_engine
from bigsmic.engines.base import Engine, Resources, TaskOptions
from bigsmic.engines.memory import share_arena
from bigsmic.errors import InputError, RunMismatchError
from bigsmic.features import definition as defining
from bigsmic.features.definition import Definition, Feature
from bigsmic.features.extraction import REASONS, Extraction, Found, Piece, Segment, checksum_of, pieces_of
from bigsmic.numerics.hashing import spot_checks
from bigsmic.numerics.windows.validity import PERIOD_SAMPLES, period_of
from bigsmic.runtime import planning
from bigsmic.runtime.options import RunOptions
from bigsmic.runtime.progress import reported, ticks
from bigsmic.store import Recording, WindowGroup, open_recordings
from bigsmic.types import Client, MemoryLimit, Progress, StorageOptions, StrPath
from bigsmic.validation import check_choice, parse_bytes
from bigsmic.warning import warn

PIECES = 16
"""Pieces per concurrent task after which progress is recorded in the archive."""
REASON_TEXTS = {
    "gap": "gaps in time, or another rate than before",
    "nan": "NaN or infinity",
    "overflow": "features beyond float32",
}
"""Reasons why windows are left out, in messages."""


@dataclass(frozen=True)
class Windows:
    """An archive of windows; :func:`bigsmic.fit` and ``Result.update`` accept it like its path.

    Attributes
    ----------
    location : str
    X : zarr.Array of float32, shape (n, d)
        Features; NaN for invalid windows.
    start : zarr.Array of int64, shape (n,)
        First sample of every window, within its source.
    time : zarr.Array of shape (n,), or None
        Time of every window, in the unit of the recordings' times.
    source : zarr.Array of int32, shape (n,)
        Index of its session in `sources`.
    valid : zarr.Array of bool, shape (n,)
        Whether the window has no gap, no NaN, and features that fit float32.
    columns, sources : list of str
        Names of the columns of X, and of the sessions.
    n_new : int
        Number of windows that the call has added.
    left_out : dict of str to int
        Number of invalid windows, by reason: ``gap``, ``nan``, ``overflow``.
    """

    location: str
    arrays: Mapping[str, Any]
    columns: list[str]
    sources: list[str]
    n_new: int
    left_out: dict[str, int]
    address: str = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        """One of the arrays."""
        if name in ("X", "start", "time", "source", "valid"):
            return self.__dict__["arrays"].get(name)
        raise AttributeError(name)

    def __fspath__(self) -> str:
        return self.address

    def __len__(self) -> int:
        return int(self.arrays["X"].shape[0])

    def __repr__(self) -> str:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count)
        sessions = f"{len(self.sources):,} session{'s' * (len(self.sources) != 1)}"
        return (
            f"Windows: {len(self):,} of {len(self.columns)} features, {self.n_new:,} of them new, from "
            f"{sessions}\n  left out   {left_out or 'none'}\n  archive    {self.location}"
        )


def windows(  # noqa: PLR0913
    archive: Any,
    length: int | str,
    step: int | str | None = None,
    *,
    out: StrPath,
    features: Feature | Sequence[Feature] = defining.DEFAULT,
    rate: float | None = None,
    times: Any = None,
    channels: Sequence[str] | None = None,
    component: str | None = None,
    storage_options: StorageOptions = None,
    missing_chunks: Literal["error", "fill"] = "error",
    verify: Literal["some", "all"] = "some",
    memory_limit: MemoryLimit = None,
    n_threads: int | None = None,
    progress: Progress = None,
    client: Client = None,
    scheduler: str | None = None,
    engine: Engine | None = None,
) -> Windows:
    """Describe windows of recordings by features, as rows for :func:`bigsmic.fit`.

    Windows begin with every `step`-th sample of each session; a window that would end after the last sample is left for
    a later call. The same call later appends the windows that have become complete since, and computes nothing twice.
    Windows over a gap in time, NaN or infinity are marked in ``valid``; fits leave them out.

    Parameters
    ----------
    archive : str, Path, Zarr array or group, or array_like, shape (T, channels)
        Samples. A group is one session if it has `component`; else every two-dimensional array in it is a session, or,
        with `component`, every group in it that has one.
    length, step : int or str
        Samples of a window, and from one window to the next, by default `length`; or durations such as ``"10s"``, which
        need `rate` or `times`.
    out : str or Path
        Zarr group for the windows, which is created or extended.
    features : str, callable, or sequence of them
        ``"summary"`` (level, spread, quantiles, range, crossings, jerk, correlations of channels), ``"spectral"``
        (amplitude in octaves, centroid, entropy), ``"raw"`` (the samples), ``"catch22"`` (with the extra of that
        name), or a function of windows, shape (b, length, channels), that returns (b, columns), where each row depends
        only on its window. It is called with valid windows, and once with zeros, to count its columns.
    rate : float, optional
        Samples per second; by default derived from `times` by the call that makes the first windows.
    times : str or array_like of shape (T,), optional
        Times of the samples, ascending numbers or datetimes: an array, or the name of one beside the samples. Its
        attribute ``units`` is the unit; numbers without one, as in an array of NumPy, are seconds, so that durations
        and the rate are wrong for milliseconds. There is a gap between two samples if their times differ from one
        period by more than half of it.
    channels : sequence of str, optional
        Names of the channels, for the names of the columns.
    component : str, optional
        Array of the samples within a group.
    storage_options : dict, optional
        For file systems behind URLs, of `archive` and `out`; never written anywhere.
    missing_chunks : {"error", "fill"}
        Whether an absent chunk of `archive` is an error, or is read as fill values.
    verify : {"some", "all"}
        Whether some or all of the samples of existing windows are checked for changes.
    memory_limit, n_threads, progress, client, scheduler, engine
        As in :func:`bigsmic.fit`. Samples or times in the memory of this process are processed here, even if a cluster
        or an engine is given.

    Returns
    -------
    windows : Windows
        The archive with all windows.

    Raises
    ------
    InputError
        An argument cannot be used: windows are too short for features, sessions differ in channels, times do not
        ascend, ...
    RunMismatchError
        `out` has windows of another definition, or the recordings behind it have changed or have become shorter.
    RunError
        `out` is something else, which stays as it is, or workers cannot see it; RunLockedError if another process
        writes there.
    StorageError
        Workers cannot see the archive, or a chunk of it is absent.
    PlanError
        The memory limit cannot be met; nothing has run.
    ClusterError
        The cluster does not answer, or workers are lost repeatedly; the same call resumes.

    Warns
    -----
    BigsmicWarning
        Most new windows are invalid, or no session is as long as a window.
    """
    check_choice("verify", verify, ("some", "all"))
    share_arena()
    found = open_recordings(archive, component, times, storage_options=storage_options, missing_chunks=missing_chunks)
    options = RunOptions(out, storage_options, memory_limit, n_threads, progress, client, scheduler, engine)
    call = _Call.of(found, (length, step), {"features": features, "rate": rate, "channels": channels}, options)
    return call.run(check_all=verify == "all")


def foresee(
    archive: Any,
    length: int | str,
    step: int | str | None = None,
    *,
    component: str | None = None,
    times: Any = None,
    **options: Any,
) -> tuple[int, int]:
    """Check the arguments of :func:`windows` against the recordings and `out`; no samples are read, nothing is written.

    Parameters
    ----------
    archive, length, step, component, times
        As of :func:`windows`.
    **options
        Its `features`, `rate` and `channels`, and `out`, `storage_options`, `missing_chunks`, `memory_limit` and
        `n_threads`.

    Returns
    -------
    rows, columns : int
        As the archive would have them.

    Raises
    ------
    InputError, RunError, PlanError
        As of :func:`windows`.
    """
    described: dict[str, Any] = {
        name: options.pop(name) for name in ("features", "rate", "channels") if name in options
    }
    reading = {
        "storage_options": options.get("storage_options"),
        "missing_chunks": options.pop("missing_chunks", "error"),
    }
    found = open_recordings(archive, component, times, **reading)
    return _Call.of(found, (length, step), described, RunOptions(**options)).foresee()


def _rate(recordings: list[Recording]) -> float | None:
    """Samples per second from the times, to four digits; None if no session has two samples yet."""
    recording = next((recording for recording in recordings if len(recording) > 1), None)
    if recording is None or recording.times is None:
        return None
    times = recording.times.read(0, min(PERIOD_SAMPLES, len(recording)))
    period = period_of(times) * recording.times.seconds
    if not period > 0:  # gaps could not be told from it
        raise InputError(
            f"times: those of the first {len(times):,} samples of {recording.samples.name} stand still or decrease, or "
            "are NaN, so that the rate does not follow from them; give ascending times, or rate= and no times="
        )
    return float(f"{1 / period:.4g}")


def _describe(definition: Definition, recordings: list[Recording]) -> dict[str, Any]:
    """Identity of the windows."""
    first = recordings[0]
    facts = {"dtype": first.samples.dtype.str, "times": None if first.times is None else first.times.attributes}
    packed = {} if first.times is None or not first.times.decoded else {"times_decoded": first.times.decoded}
    return definition.describe() | facts | packed


@dataclass(frozen=True)
class _Call:
    """One call: the definition, the recordings as they are at its start, and the group to extend."""

    definition: Definition
    recordings: list[Recording]
    group: WindowGroup
    options: RunOptions

    @classmethod
    def of(
        cls, found: list[Recording], sizes: tuple[Any, Any], described: Mapping[str, Any], options: RunOptions
    ) -> Self:
        """The call for `sizes`, length and step, and features, rate and channels as in :func:`windows`."""
        if options.out is None:
            raise InputError("out: got None; give a path or URL for the windows")
        rate = defining.check_rate(described.get("rate"))
        if rate is None and found[0].times is not None:  # as before, if there are windows: more times give other digits
            rate = WindowGroup(options.out, {}, options.storage_options).rate or _rate(found)
        length = defining.samples_in("length", sizes[0], rate)
        step = length if sizes[1] is None else defining.samples_in("step", sizes[1], rate)
        features = defining.as_features(described.get("features", defining.DEFAULT))
        names = defining.channel_names(described.get("channels"), found[0].samples.shape[1])
        definition = Definition(length, step, features, names, rate)
        group = WindowGroup(options.out, _describe(definition, found), options.storage_options)
        return cls(definition, found, group, options)

    def foresee(self) -> tuple[int, int]:
        """Numbers of rows and columns, if recordings, group and memory allow them."""
        self._keep_off()
        self._refuse_long()
        self.group.admit()
        with self._engine() as opened:
            self._plan(opened.resources)
        return sum(self._n_windows(len(recording)) for recording in self.recordings), sum(self.definition.widths())

    def _keep_off(self) -> None:
        self.group.keep_off([place for recording in self.recordings for place in recording.samples.places])

    def _refuse_long(self) -> None:
        """Raise PlanError if a window exceeds memory, before one of zeros is described to count the columns."""
        one = planning.StagePlan("windows", 1, 0, self.definition.tile_bytes, remedy="give a shorter length=")
        planning.widened([one], planning.limit_of(parse_bytes(self.options.memory_limit)), 1)

    def run(self, check_all: bool) -> Windows:
        self._keep_off()
        self._refuse_long()
        widths = self.definition.widths()
        columns = self.definition.columns(widths)
        fresh: dict[str, Any] = {
            "columns": columns,
            "chunk_rows": self.definition.chunk_rows(len(columns)),
            "rows": 0,
            "segments": 0,
            "sources": [],
            "left_out": dict.fromkeys(REASONS, 0),
        }
        with self.group.extending(fresh, self._arrays(len(columns)), fresh["chunk_rows"]) as state:
            self._refuse_changed(state, check_all)
            before, left_out = state["rows"], dict(state["left_out"])
            with self._engine() as opened:
                opened.reach(None, self.group, None)
                self._extend(state, opened)  # completes a killed call first, so that the order of rows is kept
                self._note(state)
                self._extend(state, opened)
            self._warn(state, left_out, state["rows"] - before)
        names = [source["name"] for source in state["sources"]]
        made = self.group.location, self.group.read(), columns, names
        return Windows(*made, state["rows"] - before, state["left_out"], self.group.address)

    def _arrays(self, n_columns: int) -> dict[str, Any]:
        times = self.recordings[0].times
        arrays: dict[str, Any] = {
            "X": ((n_columns,), np.float32, {}),
            "start": ((), np.int64, {}),
            "source": ((), np.int32, {}),
            "valid": ((), np.bool_, {}),
            "segments": ((5,), np.int64, {}),
        }
        if times is not None:
            arrays["time"] = ((), times.read(0, 1).dtype, times.attributes)
        return arrays

    def _engine(self) -> Any:
        """Context manager of the engine; threads of this process for samples in memory."""
        asked = self.options
        if not all(recording.travels for recording in self.recordings):
            return self._threads()
        n_threads = asked.n_threads if asked.engine is not None else asked.threads
        return choose_engine(asked.engine, asked.client, asked.scheduler, n_threads)

    def _threads(self) -> Any:
        """Context manager of an engine of threads of this process."""
        return choose_engine(None, False, None, self.options.threads)

    # -- existing windows

    def _refuse_changed(self, state: Mapping[str, Any], check_all: bool) -> None:
        """Raise RunMismatchError if recordings are missing, are shorter, or have changed."""
        by_name = {recording.name: recording for recording in self.recordings}
        for source in state["sources"]:
            recording = by_name.get(source["name"])
            have = 0 if recording is None else len(recording)
            if have < source["samples"]:
                raise RunMismatchError(
                    f"windows: {self._session(source['name'])} has {have:,} samples, and had {source['samples']:,} "
                    f"when {self.group.location} was made; restore it, or give another out="
                )
        count = state["segments"]
        segments = self.group.read_segments(count)
        chosen = list(range(count)) if check_all else spot_checks(count, count, "segments")
        for row, source, window, size, crc in segments[chosen].tolist():
            name = state["sources"][source]["name"]
            segment = Segment(row, source, window, size)
            if checksum_of(self.definition, by_name[name], segment) != crc:
                lo = window * self.definition.step
                hi = (window + size - 1) * self.definition.step + self.definition.length
                raise RunMismatchError(
                    f"windows: samples {lo:,}:{hi:,} of {self._session(name)} are not those that "
                    f"{self.group.location} was made of; restore them, or give another out="
                )

    def _session(self, name: str) -> str:
        return f"session {name!r}" if name else "the recording"

    # -- new windows

    def _note(self, state: dict[str, Any]) -> None:
        """Record the number of samples in the group; these are described before later ones."""
        known = {source["name"]: source for source in state["sources"]}
        for recording in self.recordings:
            if recording.name not in known:
                known[recording.name] = {"name": recording.name, "samples": 0, "windows": 0}
                state["sources"].append(known[recording.name])
            known[recording.name]["samples"] = len(recording)
        self.group.write_state(state)

    def _extend(self, state: dict[str, Any], engine: Engine) -> None:
        """Describe the missing windows of the recorded samples."""
        segments = self._lacking(state)
        if not segments:
            return
        stage = self._plan(engine.resources)
        n_rows = sum(segment.size for segment in segments)
        self.group.resize(state["rows"] + n_rows)
        at_once = PIECES * stage.max_concurrency * engine.resources.n_workers
        pieces = list(pieces_of(segments, state["chunk_rows"]))
        with reported(self.options.progress, n_rows) as report:
            tick = ticks(report, "windows", len(pieces))
            options = TaskOptions("windows", stage.max_concurrency, tick)
            for lo in range(0, len(pieces), at_once):
                done = pieces[lo : lo + at_once]
                self._commit(state, done, self._describe(engine, self._task(state, done), done, options))

    def _describe(self, engine: Engine, task: Extraction, pieces: list[Piece], options: TaskOptions) -> list[Found]:
        """Describe pieces: whole chunks on the engine, and chunks that a later call extends in this process.

        A worker that is considered lost may still write its chunk, when a later call has added rows to it.
        """
        whole = [piece for piece in pieces if piece.is_whole]
        parts = [piece for piece in pieces if not piece.is_whole]
        found = dict(zip(whole, engine.map(task, whole, options), strict=True))
        if parts:
            with self._threads() as threads:
                found |= zip(parts, threads.map(task, parts, options), strict=True)
        return [found[piece] for piece in pieces]

    def _lacking(self, state: Mapping[str, Any]) -> list[Segment]:
        """Missing windows of every session, in the order of the sessions."""
        row, found = state["rows"], []
        for number, source in enumerate(state["sources"]):
            count = self._n_windows(source["samples"]) - source["windows"]
            if count > 0:
                found.append(Segment(row, number, source["windows"], count))
                row += count
        return found

    def _n_windows(self, samples: int) -> int:
        length, step = self.definition.length, self.definition.step
        return (samples - length) // step + 1 if samples >= length else 0

    def _task(self, state: Mapping[str, Any], pieces: list[Piece]) -> Extraction:
        """Task for some pieces, pickled only with their sessions."""
        by_name = {recording.name: recording for recording in self.recordings}
        numbers = {segment.source for piece in pieces for segment in piece.segments}
        recordings = {number: by_name[state["sources"][number]["name"]] for number in sorted(numbers)}
        times, rate = self.recordings[0].times, self.definition.rate
        period = None if times is None or rate is None else 1 / (rate * times.seconds)
        return Extraction(self.definition, recordings, self.group, len(state["columns"]), period)

    def _commit(self, state: dict[str, Any], pieces: list[Piece], found: list[Found]) -> None:
        """Add the written rows of some pieces to the group's number of rows."""
        segments = [segment for one in found for segment in one.segments]
        self.group.append_segments(state["segments"], segments)
        for piece in pieces:
            for segment in piece.segments:
                state["sources"][segment.source]["windows"] += segment.size
            state["rows"] += piece.rows
        for reason, count in zip(REASONS, np.sum([one.left_out for one in found], axis=0).tolist(), strict=True):
            state["left_out"][reason] += count
        state["segments"] += len(segments)
        self.group.write_state(state)

    def _plan(self, resources: Resources) -> planning.StagePlan:
        """Memory of the tasks, and the number of concurrent ones."""
        limits = [limit for limit in (parse_bytes(self.options.memory_limit), resources.memory_limit) if limit]
        bands = max(recording.samples.band_bytes for recording in self.recordings)
        task = self.definition.task_bytes(sum(self.definition.widths()))
        stage = planning.StagePlan("windows", 1, bands, task)
        limit = planning.limit_of(min(limits, default=None))
        return planning.widened([stage], limit, resources.n_threads)["windows"]

    def _warn(self, state: Mapping[str, Any], left_out: Mapping[str, int], n_new: int) -> None:
        """Warn if a call has made few or no valid windows."""
        if not state["rows"]:
            longest = max(map(len, self.recordings))
            warn(
                f"windows: no session has {self.definition.length:,} samples, the longest {longest:,}; there are no "
                "windows: give a shorter length"
            )
        new = {reason: state["left_out"][reason] - left_out[reason] for reason in REASONS}
        if 2 * sum(new.values()) > n_new:
            reasons = ", ".join(f"{count:,} for {REASON_TEXTS[reason]}" for reason, count in new.items() if count)
            warn(
                f"windows: {sum(new.values()):,} of {n_new:,} new windows are left out, {reasons}; check the "
                "recording, or make another archive with its present rate"
            )
