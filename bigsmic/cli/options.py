"""Options of the command line: what is typed, and what it becomes.

Loads nothing heavy, so that ``--help`` is quick.
"""

import inspect
import json
import os
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import typer


class Flag(NamedTuple):
    """An option that is handed on, if it is given, under its own name.

    Parameters
    ----------
    name : str
        Of the parameter; of the option too, with hyphens.
    kind : type
        Of what is typed.
    help : str
    convert : callable, optional
        From what is typed to the parameter; ValueError where it cannot.
    option : str, optional
        The option's name where it is another.
    """

    name: str
    kind: Any
    help: str
    convert: Callable[[Any], Any] = lambda value: value
    option: str | None = None

    @property
    def spelling(self):
        """The option as it is typed."""
        return self.option or "--" + self.name.replace("_", "-")

    def parameter(self, panel):
        """The option as a parameter of a function that typer reads."""
        kind, default = (bool, False) if self.kind is bool else (self.kind | None, None)
        metavar = "<str>.." if self.kind == list[str] else None
        short = [f"-{self.name}"] if len(self.name) == 1 else []
        option = typer.Option(self.spelling, *short, help=self.help, rich_help_panel=panel, metavar=metavar)
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _integers(texts):
    return tuple(int(part) for text in texts for part in text.split(","))


def _windows(texts):
    return tuple(_numbers(text) for text in texts)


def _numbers(text):
    return tuple(float(part) for part in text.split(","))


def _numbers_or_word(text):
    return text if text.isalpha() else _numbers(text)


def _number_or_text(text):
    try:
        return float(text)
    except ValueError:
        return text


def _at_least_one(number):
    if number < 1:
        raise ValueError(f"got {number}; use at least 1, or leave it out for all processors")
    return number


def _named_values(texts):
    """``key=value`` with a value that may be JSON: file systems want booleans, numbers and dicts too."""
    named = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError("got one that is not of the form key=value")  # which may be a secret by itself
        try:
            named[key] = json.loads(value)
        except json.JSONDecodeError:
            named[key] = value
    return named


STORAGE_OPTIONS = "BIGSMIC_STORAGE_OPTIONS"
"""Environment variable with a JSON object of storage options: what stands on a command line, all users of the machine
see."""


def storage_options(file, named):
    """Storage options from the environment, from a file, and from the command line, of which the later count.

    Parameters
    ----------
    file : str or None
        Of a JSON object.
    named : dict

    Returns
    -------
    options : dict

    Raises
    ------
    ValueError
        One of them is no JSON object. The message does not have what is there.
    """
    of_file = _json_object(_text_of(file), file) if file is not None else {}
    return _json_object(os.environ.get(STORAGE_OPTIONS) or "{}", STORAGE_OPTIONS) | of_file | named


def _text_of(file):
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read ({getattr(error, 'strerror', None) or 'no text'})") from None


def _json_object(text, where):
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is no JSON ({error.msg} in line {error.lineno})") from None
    if not isinstance(found, dict):
        raise ValueError(f'{where} is JSON, but no object; write it as {{"key": "value"}}')
    return found


SWITCH = {"on": True, "off": False, "auto": "auto"}
READING = (
    Flag("component", str, "Array within a Zarr group."),
    Flag("storage_options", list[str], "key=value for the file system of a URL; may be repeated; shows in ps.",
         _named_values, "--storage-option"),
    Flag("storage_options_file", str, f"JSON file of the same, or set {STORAGE_OPTIONS} to what would be in it."),
)  # fmt: skip
ROWS = (*READING, Flag("missing_chunks", Literal["error", "fill"], "An absent chunk is an error, or its fill value."))
MODEL = (
    Flag("t", list[str], "Neighbour numbers to choose among, such as 3,5,7,10.", _integers),
    Flag("kernel", str,
         "local_scaling as in SMIC, normalized or auto; dense or graph in mwca; rbf, laplacian, .. in kernel_rim."),
    Flag("assignment", Literal["merge", "rotation", "paper", "auto"], "How eigenvectors become labels."),
    Flag("selection", Literal["consensus", "lsmi", "medoid", "links"],
         "What is returned of several labelings; links, the one of largest criterion, in 3smic alone."),
    Flag("rotation", Literal["auto", "on", "off"], "Short for --assignment auto, rotation and paper.", SWITCH.get),
    Flag("widths", list[str], "Columns in multiples of c, such as 1.5,2,2.5; may be repeated.", _windows),
    Flag("shrinkage", str, "How far degrees are drawn to their mean, from 0 to 1, such as 0,0.75.", _numbers),
    Flag("repair", Literal["on", "off"], "Connect the components of the neighbour graph.", SWITCH.get),
    Flag("prior", str, "Share of each cluster, such as .5,.3,.2; equal by default; power in rim.", _numbers_or_word),
    Flag("preset", Literal["paper"], "As published."),
    Flag("scale", Literal["standard", "variance", "range", "none"],
         "What centred columns are divided by; standard by default; range in mspc alone.",
         lambda text: None if text == "none" else text),
    Flag("bandwidth", float, "2, the default, as in SMIC; 1 as in self-tuning spectral clustering."),
    Flag("seed", int, "0 by default; equal seeds give equal labels."),
    Flag("neighbors", Literal["auto", "exact", "pynndescent"], "How neighbours are searched."),
    Flag("n_neighbors", int, "Neighbours to find for each row."),
    Flag("n_centers", int, "Kernel centres of LSMI."),
    Flag("lsmi_rows", str, "Rows that LSMI is estimated from: a number or all.",
         lambda text: None if text == "all" else int(text)),
)  # fmt: skip
RESOURCES = (
    Flag("memory_limit", str, "What the process may use, such as 1GiB; three quarters of the machine by default."),
    Flag("n_threads", int, "Tasks at once; all processors by default.", _at_least_one, "--threads"),
    Flag("scheduler", str, "Address of a Dask scheduler, such as tcp://host:8786; without it, threads here."),
    Flag("performance_report", str, "HTML file for Dask's report of what its scheduler and workers did."),
)
MSPC = (
    Flag("solver", str, "mpm, gep or eig in mspc; minibatch or lbfgs in rim; gradient or spectral in mwca."),
    Flag("reg", str, "Strength of the penalty: a number, or auto in mspc, a share such as 4/N or lsmi in rim.",
         _number_or_text),
    Flag("max_iter", int, "Iterations at most."),
    Flag("tol", float, "Share of rows that must move (mspc), gain (mwca) or nats per row (mic) to go on."),
    *(flag for flag in MODEL if flag.name in ("scale", "seed")),
)  # fmt: skip
SEMISUPERVISED = (
    Flag("must_links", str, "Pairs of rows that belong together: .npy, .csv or Zarr of row numbers, shape (m, 2)."),
    Flag("cannot_links", str, "Pairs of rows that do not."),
    Flag("labels", str, "Known labels, -1 where there is none: .npy, .csv or Zarr."),
    Flag("gamma", str, "Strengths of must-links to choose from, such as 0,1.", _numbers),
    Flag("eta", str, "Strengths of cannot-links, of two clusters, such as 0,1,10.", _numbers),
    Flag("link_weight", float, "Of violated links against information in the choice; 10 by default, 1 as published."),
    Flag("close_links", Literal["on", "off"], "Add the links that follow from those given.", SWITCH.get),
    Flag("max_matvecs", int, "Products of a matrix with a vector at most, for each eigenproblem."),
    *(flag for flag in MODEL if flag.name not in ("rotation", "widths", "shrinkage", "prior", "preset")),
)  # fmt: skip
RIM = (
    Flag("n_init_categories", int, "Categories to begin with; those that live are the clusters."),
    Flag("tau", float, "Weight of the information against labels that are given."),
    Flag("batch_size", int, "Rows of a batch."),
    Flag("learning_rate", float, "Of the first step by a batch."),
    Flag("n_epochs", int, "Passes over the rows at each strength of the penalty."),
    Flag("polish", int, "Exact iterations after the last batch."),
    *(flag for flag in MSPC if flag.name in ("reg", "solver", "max_iter", "scale", "seed")),
    Flag("sample_weight", str, "Weights of the rows: .npy or Zarr."),
    *(flag for flag in (*MODEL, *SEMISUPERVISED) if flag.name in ("prior", "labels")),
)  # fmt: skip
MIC = (
    Flag("start_t", int, "Neighbour number of the spectral start."),
    Flag("mlmi_rows", str, "Rows whose likelihood MLMI maximises: a number or all.",
         lambda text: None if text == "all" else int(text)),
    *(flag for flag in MSPC if flag.name in ("reg", "max_iter", "tol")),
    *(flag for flag in MODEL if flag.name in ("t", "preset", "scale", "bandwidth", "repair", "seed", "neighbors",
                                              "n_neighbors", "n_centers")),
)  # fmt: skip
MWCA = (
    Flag("sigma", str, "Width of the Parzen windows: a number, deviation, quartile or likelihood.", _number_or_text),
    Flag("direction", Literal["natural", "gradient"], "Of the ascent of mwca."),
    Flag("n_starts", int, "Starts of the ascent of mwca."),
    *(flag for flag in MSPC if flag.name in ("solver", "max_iter", "tol")),
    *(flag for flag in MODEL if flag.name in ("t", "kernel", "scale", "bandwidth", "seed", "neighbors", "n_neighbors")),
)  # fmt: skip
KERNEL_RIM = (
    Flag("length_scale", float, "Of a Gaussian or Laplacian kernel, for scaled rows; the median distance by default."),
    Flag("approximation", Literal["nystrom", "fourier"], "Features of a kernel: from landmarks, or random."),
    Flag("n_components", int, "Landmarks or random features."),
    *(flag for flag in MODEL if flag.name in ("kernel", "t", "bandwidth")),
    *RIM,
)  # fmt: skip
METHODS = {
    "smic": MODEL,
    "3smic": SEMISUPERVISED,
    "mspc": MSPC,
    "rim": RIM,
    "kernel_rim": KERNEL_RIM,
    "mic": MIC,
    "mwca": MWCA,
}
"""Options of every method; one name means one thing in all that have it."""


def _panels():
    """Options of a fit by panel: those of the first method that has them."""
    shown: dict[str, tuple[Flag, ...]] = {"Rows": ROWS, "Model": (METHOD, *MODEL)}
    known = {flag.name for flag in MODEL}
    for name, flags in METHODS.items():
        own = tuple(flag for flag in flags if flag.name not in known)
        known |= {flag.name for flag in own}
        if own:
            shown[f"Method {name}"] = own
    return shown | {"Resources": RESOURCES}


METHOD = Flag("method", str, "smic by default; others take options of their own, and some of those of smic.")
FIT = _panels()


CLUSTERS, OUT = Flag("c", int, "", option="--clusters"), Flag("out", str, "")


def as_typed(message, flags, leads=True):
    """Return a message with the names of options as they are typed, and not as Python has them.

    Parameters
    ----------
    message : str
    flags : sequence of Flag
        Options of the command.
    leads : bool
        Whether a name that the message begins with is that of an option.

    Returns
    -------
    message : str

    >>> as_typed("input: a group; name one with component=", FIT["Rows"])
    'input: a group; name one with --component'
    >>> as_typed("n_threads: got 0; try n_threads=1, or set memory_limit", FIT["Resources"])
    '--threads: got 0; try --threads 1, or set --memory-limit'
    """
    spelled = {flag.name: flag.spelling for flag in (*flags, CLUSTERS, OUT)}
    names = "|".join(sorted(spelled, key=len, reverse=True))
    only_names = "|".join(name for name in spelled if "_" in name)  # which are no words of English
    if leads:
        message = re.sub(rf"\A({names})(?=: )", lambda found: spelled[found[1]], message)
    message = re.sub(rf"(?<![\w.'/-])({names})=(?=[\w'\"\[.-])", lambda found: f"{spelled[found[1]]} ", message)
    message = re.sub(rf"(?<![\w.'/-])({names})=(?![=\w])", lambda found: spelled[found[1]], message)
    return re.sub(rf"(?<![\w.'/-])({only_names})(?![\w.'/-])", lambda found: spelled[found[1]], message)
