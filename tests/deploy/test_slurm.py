"""The shipped batch script on a real SLURM: one node, on loopback, brought up here and taken down again.

Wants root and Debian's ``slurmctld slurmd slurm-client munge``; run with ``-m slurm``.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zarr
from locations import ROOT

import bigsmic
from bigsmic.datasets import tetrodes

pytestmark = pytest.mark.slurm
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "mungekey", "runuser")
CONFIGURATION = """
ClusterName=loopback
SlurmctldHost=localhost
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
MinJobAge=600
SchedulerParameters=sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=localhost CPUs=8 RealMemory=64000 State=UNKNOWN
PartitionName=low Nodes=localhost Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=localhost MaxTime=INFINITE State=UP PriorityTier=10
"""


# -- a cluster


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.2)
    return found


class Slurm:
    """A controller and a node on this machine, with munge beside them."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self):
        controller_port, node_port = free_ports(2)
        text = CONFIGURATION.format(folder=self.folder, controller_port=controller_port, node_port=node_port)
        (self.folder / "slurm.conf").write_text(text)
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(mode=0o755)
        self._start_munge(self.folder / "munge")
        self._run("slurmctld", "-D", "-c")
        self._run("slurmd", "-D", "-N", "localhost")
        wait_until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), 60, "node idle")

    def _start_munge(self, folder):
        shutil.chown(folder, "munge", "munge")
        (folder / "socket").unlink(missing_ok=True)
        as_munge = ["runuser", "-u", "munge", "--"]
        subprocess.run([*as_munge, "mungekey", "-c", "-k", folder / "key"], check=True)
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={folder / name}" for option, name in files.items()]
        self._run(*as_munge, "munged", "--foreground", *options)
        wait_until((folder / "socket").exists, 20, "munge")

    def _run(self, *command):
        with open(self.folder / f"{Path(command[0]).name}.out", "w") as out:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=out, stderr=out))

    def stop(self):
        if self.daemons:
            self.ask("scancel", "--user=root", check=False)
            self.ask("scancel", "--full", "--signal=KILL", "--user=root", check=False)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(30)

    def ask(self, *command, check=True, **variables):
        done = subprocess.run(
            command, env=self.environment | variables, capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def job(self, number):
        """What SLURM knows of a job, as a dict."""
        text = self.ask("scontrol", "--oneliner", "show", "job", number)
        return dict(part.split("=", 1) for part in text.split() if "=" in part)

    def wait_for(self, number, states, seconds=1200):
        def reached():
            job = self.job(number)
            return job if job["JobState"] in states else None

        return wait_until(reached, seconds, f"job {number} {states}")


@pytest.fixture(scope="module")
def slurm():
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and the programs {', '.join(PROGRAMS)}; missing: {', '.join(missing) or 'root'}")
    with TemporaryDirectory(prefix="bigsmic-slurm-") as folder:
        os.chmod(folder, 0o755)  # munge is another user, and pytest's own folders are closed to others
        cluster = Slurm(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


# -- a fit on it

OPTIONS = {"t": (5, 7), "lsmi_rows": 2000}
ON_COMMAND_LINE = ["--t", "5,7", "--lsmi-rows", "2000"]
N_UNITS = 6


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    X, _ = tetrodes(n_rows=40_000, n_units=N_UNITS, seed=3)
    path = tmp_path_factory.mktemp("archive") / "spikes.zarr"
    zarr.create_array(str(path), shape=X.shape, chunks=(5_000, X.shape[1]), dtype=X.dtype)[:] = X
    return str(path)


@pytest.fixture(scope="module")
def expected(archive):
    """The same fit in this process."""
    return bigsmic.fit(archive, c=N_UNITS, n_threads=1, **OPTIONS)


@pytest.fixture
def folder(tmp_path):
    """What a user has: the shipped files in a folder of their own."""
    for file in (ROOT / "deploy" / "slurm").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    return tmp_path


def submit(slurm, folder, *arguments, options=(), **variables):
    """Submit the shipped script; return the job's number."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    place = ("--parsable", f"--chdir={folder}", *options)
    script = folder / "bigsmic.sbatch"
    return slurm.ask("sbatch", *place, script, *arguments, PATH=path, PYTHONPATH=str(ROOT), **variables)


def processes(*words):
    """Numbers of the Python processes whose command lines have all the words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "python" in Path(command[0]).name and all(word in command for word in words):
            found.append(int(folder.name))
    return found


def finished_blocks(run):
    """When every finished block of the stages that are kept was finished."""
    kept = ("scan", "route", "rows", "graph", "basis.*")
    return {str(file): file.stat().st_mtime_ns for stage in kept for file in run.glob(f"{stage}/0*/zarr.json")}


def labels(run):
    return zarr.open_group(str(run), mode="r")["labels"][:]


def test_a_job_that_is_killed_requeued_and_preempted_ends_with_the_same_labels(slurm, folder, archive, expected):
    run = folder / "run.zarr"
    command = ["fit", archive, "-c", str(N_UNITS), "--out", str(run), "--threads", "1", *ON_COMMAND_LINE]
    number = submit(slurm, folder, *command, options=["--partition=low"], BIGSMIC_JOBS="0")
    wait_until(lambda: list(run.glob("rows/0*/zarr.json")), 400, "rows of the run")
    (process,) = processes("fit", str(run))
    rows = finished_blocks(run)
    os.kill(process, signal.SIGKILL)

    wait_until(lambda: slurm.job(number)["Restarts"] == "1", 120, "the script requeues its job")
    wait_until(lambda: list(run.glob("graph/0*/zarr.json")), 400, "graph of the run")
    slurm.ask("scancel", "--batch", "--signal=USR1", number)  # as near the time limit: the script stops and requeues

    wait_until(lambda: slurm.job(number)["Restarts"] == "2", 120, "the script requeues its job again")
    wait_until(lambda: list(run.glob("restart.*/0*/zarr.json")), 400, "restart of the eigensolver")
    urgent = slurm.ask("sbatch", "--parsable", "--partition=high", "--exclusive", f"--chdir={folder}", "--wrap=sleep 1")
    slurm.wait_for(urgent, {"COMPLETED"})

    job = slurm.wait_for(number, {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"})
    log = (folder / f"bigsmic-{number}.log").read_text()
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "3"), log
    np.testing.assert_array_equal(labels(run), expected.labels)
    after = finished_blocks(run)
    assert {file: after[file] for file in rows} == rows, "finished blocks were made again"


def workers(slurm, state="R,PD"):
    """Numbers of the worker jobs."""
    return slurm.ask("squeue", "--noheader", "--name=bigsmic-worker", f"--states={state}", "--format=%i").split()


def connections(logs):
    """Protocols of the workers that have begun; a job that ends before its worker has begun says none."""
    found = (re.search(r"\b(tcp|tls)://", file.read_text()) for file in logs.glob("*.err"))
    return [match[1] for match in found if match]


def test_workers_are_jobs_that_come_and_go(slurm, folder, archive, expected):
    run = folder / "run.zarr"
    configuration = (folder / "jobqueue.yaml").read_text()
    for shipped, small in (("memory: 8GiB", "memory: 2GiB"), ("cores: 2", "cores: 1")):
        assert shipped in configuration
        configuration = configuration.replace(shipped, small)
    (folder / "jobqueue.yaml").write_text(configuration)
    command = ["fit", archive, "-c", str(N_UNITS), "--out", str(run), *ON_COMMAND_LINE]
    number = submit(slurm, folder, *command, options=["--partition=low"], BIGSMIC_JOBS="2")

    wait_until(lambda: list(run.glob("rows/0*/zarr.json")), 400, "rows of the run")
    lost = workers(slurm, "R")[0]
    slurm.ask("scancel", "--signal=KILL", "--full", lost)

    wait_until(lambda: list(run.glob("graph/0*/zarr.json")), 400, "graph of the run, without the worker that was lost")
    logs = folder / "worker-logs"
    wait_until(lambda: len(connections(logs)) == 3, 400, "another worker, in place of the one that was lost, has begun")
    slurm.ask("scontrol", "requeue", number)
    slurm.wait_for(number, {"COMPLETED", "FAILED"}, 1200)

    log = (folder / f"bigsmic-{number}.log").read_text()
    job = slurm.job(number)
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "1"), log
    np.testing.assert_array_equal(labels(run), expected.labels)
    wait_until(lambda: not workers(slurm), 150, "no worker outlives its driver")
    texts = [file.read_text() for file in logs.glob("*.err")]
    used = connections(logs)
    assert len(used) == 5, "two at first, one in place of the one that was lost, two for the driver's second start"
    assert {*used} == {"tls"}, "all are encrypted"
    assert sum(text.count("Run out-of-band function") for text in texts) > 10, "the workers did not iterate"
