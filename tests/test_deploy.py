"""The files of deploy/: checked against the schemas of those who read them, and run where that can be done here."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
}


def program(name):
    """Where a program is; the test is skipped if it is nowhere."""
    return shutil.which(name, path=ENVIRONMENT["PATH"]) or pytest.skip(f"{name} is not installed")


def run(*command, **options):
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False, **options)


# -- shell


@pytest.mark.parametrize("script", [*DEPLOY.glob("**/*.sh"), *DEPLOY.glob("**/*.sbatch")], ids=lambda path: path.name)
def test_scripts_pass_shellcheck(script):
    done = run(program("shellcheck"), "--severity=style", str(script))
    assert done.returncode == 0, done.stdout
    assert os.access(script, os.X_OK) or script.suffix == ".sbatch"


# -- two hosts, with TLS

CLIENT = """
import sys
from distributed import Client

try:
    client = Client(sys.argv[1], timeout=sys.argv[2])
except OSError as error:
    sys.exit(f"refused: {error} {error.__cause__}")
with client:
    client.wait_for_workers(2, timeout=30)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    print(*sorted(workers), client.submit(sum, (1, 2)).result())
"""


class Host:
    """A place to start programs, with an address.

    Parameters
    ----------
    address : str
    enter : tuple of str
        What goes before a command so that it runs there.
    """

    def __init__(self, address, enter=()):
        self.address, self.enter, self.processes = address, enter, []

    def start(self, *command, log):
        with open(log, "w") as out:
            self.processes.append(subprocess.Popen([*self.enter, *command], env=ENVIRONMENT, stdout=out, stderr=out))

    def run(self, *command):
        return run(*self.enter, *command)


def network_namespaces():
    """Two hosts with a wire between them, and what takes them down."""
    name, stack = f"bs{os.getpid()}", contextlib.ExitStack()
    addresses = ("10.231.7.1", "10.231.7.2")
    ends = (f"{name}a", f"{name}b")
    for end in ends:
        subprocess.run(["ip", "netns", "add", end], check=True, capture_output=True)
        stack.callback(subprocess.run, ["ip", "netns", "del", end], check=True)
    ip = [["ip", "-n", end] for end in ends]
    wire = ["link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", ends[1]]
    subprocess.run([*ip[0], *wire], check=True, capture_output=True)
    for prefix, address in zip(ip, addresses, strict=True):
        for setting in (["address", "add", f"{address}/24", "dev", "wire"], ["link", "set", "wire", "up"]):
            subprocess.run([*prefix, *setting], check=True, capture_output=True)
        subprocess.run([*prefix, "link", "set", "lo", "up"], check=True, capture_output=True)
    return [Host(address, ("ip", "netns", "exec", end)) for end, address in zip(ends, addresses, strict=True)], stack


@pytest.fixture(scope="module")
def hosts():
    """Two network namespaces where we may make them, else two addresses of loopback."""
    stack = contextlib.ExitStack()
    try:
        found, stack = network_namespaces()
    except (OSError, subprocess.CalledProcessError):
        found = [Host("127.0.0.1"), Host("127.0.0.2")]
    with stack:
        yield found
        processes = [process for host in found for process in host.processes]
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    program("openssl")
    folder = tmp_path_factory.mktemp("certificates")
    done = run(str(DEPLOY / "two-hosts" / "certificates.sh"), str(folder))
    assert done.returncode == 0, done.stderr
    return folder / "tls"


@pytest.fixture(scope="module")
def cluster(hosts, tls, tmp_path_factory):
    """Scheduler and a worker on the first host, a worker on the second; the scheduler's address."""
    folder, scripts = tmp_path_factory.mktemp("cluster"), DEPLOY / "two-hosts"
    port = free_port()
    address = f"tls://{hosts[0].address}:{port}"
    hosts[0].start(scripts / "scheduler.sh", tls, hosts[0].address, str(port), log=folder / "scheduler.log")
    for number, host in enumerate(hosts):
        options = ["--nthreads", "1", "--host", host.address, "--local-directory", folder]
        host.start(scripts / "worker.sh", tls, address, "1GiB", *options, log=folder / f"worker{number}.log")
    return address


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(host, tls, address, timeout=30):
    return host.run(DEPLOY / "two-hosts" / "client.sh", tls, sys.executable, "-c", CLIENT, address, str(timeout))


def test_keys_are_for_their_owner_alone(tls):
    assert {oct(path.stat().st_mode & 0o777) for path in (*tls.iterdir(), tls.parent / "ca-key.pem")} == {"0o600"}
    signed = [str(tls / f"{role}.pem") for role in ("scheduler", "worker", "client")]
    assert run("openssl", "verify", "-x509_strict", "-CAfile", str(tls / "ca.pem"), *signed).returncode == 0


def test_a_client_with_a_certificate_reaches_both_hosts(hosts, tls, cluster):
    done = ask(hosts[1], tls, cluster)
    assert done.returncode == 0, done.stderr
    *workers, total = done.stdout.split()
    assert [worker.rsplit(":", 1)[0] for worker in workers] == [f"tls://{host.address}" for host in hosts]
    assert total == "3"


def test_others_are_refused(hosts, tls, cluster, tmp_path):
    plain = hosts[1].run(sys.executable, "-c", CLIENT, cluster.replace("tls:", "tcp:"), "3")
    assert plain.returncode == 1
    assert "refused: " in plain.stderr
    run(str(DEPLOY / "two-hosts" / "certificates.sh"), str(tmp_path))
    stranger = ask(hosts[1], tmp_path / "tls", cluster, timeout=3)
    assert stranger.returncode == 1
    assert re.search("refused: .*certificate verify failed", stranger.stderr)
