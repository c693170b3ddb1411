"""Draws the pictures of the front page, or of the gallery: ``python docs/make_pictures.py [gallery]``.

Those of the front page have a transparent ground, and colours that can be read on white and on black. Those of the
gallery are the first plots of the notebooks, run with few rows.
"""

import base64
import io
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

import bigsmic
from bigsmic.datasets import tetrodes
from bigsmic.numerics.labeling.metrics import adjusted_rand_index, contingency

FOLDER = Path(__file__).parent / "_static"
INK = "#7d8590"
STEPS = (
    ("Zarr rows", "read in blocks,\nnever as a whole", "#8250df"),
    ("neighbours", "20 nearest of each,\nwithin k-means cells", "#1f6feb"),
    ("kernel", "sparse, scaled\nto local density", "#1f6feb"),
    ("eigenvectors", "block Lanczos,\nrestartable", "#1f6feb"),
    ("labelings", "over-segment,\nmerge, move", "#1f6feb"),
    ("consensus", "what labelings\nagree on", "#1f6feb"),
    ("Zarr results", "label, posterior,\nagreement", "#8250df"),
)
WIDTH, GAP = 1.5, 0.35
CLUSTERS = ("#4c8fd6", "#e0742f", "#3fa35b", "#d1556f", "#9a6fd0", "#b08d2a")
SURE = LinearSegmentedColormap.from_list("sure", ["#f0433a", "#d98324", "#5b8fbf"])


def main():
    """Draw both."""
    plt.rcParams.update({"font.family": "sans-serif", "text.color": INK, "axes.labelcolor": INK, "svg.hashsalt": "0"})
    plt.rcParams.update({"xtick.color": INK, "ytick.color": INK, "axes.edgecolor": INK, "axes.titlecolor": INK})
    save(pipeline(), "pipeline.svg")
    save(result(), "result.png")


def save(figure, name):
    """Write a figure, the same bytes each time."""
    # a date would change the file each time
    metadata = {"Date": None} if name.endswith("svg") else {"Software": None}
    figure.savefig(FOLDER / name, transparent=True, dpi=90, metadata=metadata)


def pipeline():
    """Draw the steps of a fit from left to right."""
    length = len(STEPS) * (WIDTH + GAP) - GAP
    figure = plt.figure(figsize=(length * 0.92, 2))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(-0.1, length + 0.1), ylim=(-0.85, 1.05))
    ax.set_axis_off()
    for k, (name, what, colour) in enumerate(STEPS):
        left = k * (WIDTH + GAP)
        box = plt.Rectangle((left, 0), WIDTH, 0.6, facecolor=colour, edgecolor="none")
        ax.add_patch(box)
        ax.text(left + WIDTH / 2, 0.3, name, color="white", ha="center", va="center", fontsize=12, weight="bold")
        ax.text(left + WIDTH / 2, -0.12, what, ha="center", va="top", fontsize=10.5)
        if k:
            ax.annotate("", (left, 0.3), (left - GAP, 0.3), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.6})
    first, last = WIDTH + GAP, length - WIDTH - GAP
    ax.plot([first, first, last, last], [0.72, 0.78, 0.78, 0.72], color=INK, lw=1)
    above = "tasks on threads or on a Dask cluster; every block is checkpointed in a run directory"
    ax.text((first + last) / 2, 0.82, above, ha="center", va="bottom", fontsize=10.5)
    return figure


def result():
    """Fit simulated spikes, and draw rows, agreement and mean spikes."""
    X, units = tetrodes(n_rows=6_000, n_units=6, seed=0)
    found = bigsmic.fit(X, c=6)
    ari = adjusted_rand_index(contingency(units, found.labels, 6, 6))
    figure, (rows, sure, means) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    plane = X - X.mean(axis=0)
    plane = plane @ np.linalg.svd(plane, full_matrices=False)[2][:2].T
    rows.scatter(*plane.T, c=[CLUSTERS[k] for k in found.labels], s=2, linewidths=0)
    rows.set_title(f"6,000 simulated spikes: ARI {ari:.2f}")
    order = np.argsort(-found.agreement, kind="stable")
    marks = sure.scatter(*plane[order].T, c=found.agreement[order], cmap=SURE, vmin=0.4, vmax=1, s=2, linewidths=0)
    figure.colorbar(marks, ax=sure, shrink=0.9).outline.set_visible(False)
    sure.set_title("agreement of the labelings")
    for k, colour in enumerate(CLUSTERS):
        means.plot(X[found.labels == k].mean(axis=0), color=colour, lw=1.3)
    means.set_title("mean spike of every cluster")
    for ax in (rows, sure):
        ax.set(xlim=np.quantile(plane[:, 0], (0.001, 0.999)) * 1.1, ylim=np.quantile(plane[:, 1], (0.001, 0.999)) * 1.1)
    for ax in (rows, sure, means):
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    return figure


def gallery():
    """Run the notebooks, and keep one picture of each."""
    import nbformat
    from nbclient import NotebookClient
    from PIL import Image

    os.environ["BIGSMIC_NOTEBOOK_ROWS"] = "2000"
    for path in sorted((FOLDER.parent / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=300).execute()
        pictures = [
            output.data["image/png"]
            for cell in notebook.cells
            if any(name in cell.source for name in ("plots.", "scatter", "sc.pl.", ".bar("))
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        picture = Image.open(io.BytesIO(base64.b64decode(pictures[0]))).convert("RGB").quantize(64)
        picture.save(FOLDER / "gallery" / f"{path.stem}.png", optimize=True)


if __name__ == "__main__":
    gallery() if sys.argv[1:] == ["gallery"] else main()
