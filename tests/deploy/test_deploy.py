"""The files of deploy/: checked against the schemas of those who read them, and run where that can be done here."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
import zarr
from locations import ROOT
from packaging.requirements import Requirement

import bigsmic
from bigsmic.nightly import Job
from bigsmic.validation import parse_bytes

DEPLOY = ROOT / "deploy"
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
}


def program(name):
    """Where a program is; the test is skipped if it is nowhere."""
    return shutil.which(name, path=ENVIRONMENT["PATH"]) or pytest.skip(f"{name} is not installed")


def run(*command, **options):
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=500, check=False, **options)


def test_documented_files_are_there():
    text = (ROOT / "docs" / "deploy.md").read_text()
    named = set(re.findall(r"(?<!tests/)\bdeploy/[\w@./-]*[\w]", text))
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists()] == []


# -- shell


@pytest.mark.parametrize(
    "script",
    [*DEPLOY.glob("**/*.sh"), *DEPLOY.glob("**/*.sbatch")],
    ids=lambda path: path.name,
)
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
client.wait_for_workers(2, timeout=120)
print(*sorted(client.scheduler_info(n_workers=-1)["workers"]))
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


def as_client(host, tls, *arguments):
    return host.run(DEPLOY / "two-hosts" / "client.sh", tls, sys.executable, *arguments)


def test_keys_are_for_their_owner_alone(tls):
    assert {oct(path.stat().st_mode & 0o777) for path in (*tls.iterdir(), tls.parent / "ca-key.pem")} == {"0o600"}
    signed = [str(tls / f"{role}.pem") for role in ("scheduler", "worker", "client")]
    assert run("openssl", "verify", "-x509_strict", "-CAfile", str(tls / "ca.pem"), *signed).returncode == 0


@pytest.mark.end_to_end
def test_a_client_with_a_certificate_meets_both_hosts(hosts, tls, cluster):
    done = as_client(hosts[1], tls, "-c", CLIENT, cluster, "120")
    assert done.returncode == 0, done.stderr
    assert [worker.rsplit(":", 1)[0] for worker in done.stdout.split()] == [f"tls://{host.address}" for host in hosts]


@pytest.mark.slow
def test_both_hosts_fit_and_predict_as_one_process_does(hosts, tls, cluster, blobs, tmp_path):
    archive, out, predicted = (str(tmp_path / name) for name in ("X.zarr", "run.zarr", "predicted.zarr"))
    zarr.create_array(archive, shape=blobs[0].shape, chunks=(100, 5), dtype="f4")[:] = blobs[0]
    options = ["--t", "3,5", "--n-centers", "40", "--scheduler", cluster]
    done = as_client(hosts[1], tls, "-m", "bigsmic", "fit", archive, "-c", "4", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    done = as_client(hosts[1], tls, "-m", "bigsmic", "predict", out, archive, "--out", predicted, *options[-2:])
    assert done.returncode == 0, done.stderr
    expected = bigsmic.fit(archive, c=4, t=(3, 5), n_centers=40)
    np.testing.assert_array_equal(bigsmic.Result.open(out).labels, expected.labels)
    np.testing.assert_array_equal(zarr.open_array(f"{predicted}/labels", mode="r")[:], expected.predict(blobs[0]))


@pytest.mark.end_to_end
def test_others_are_refused(hosts, tls, cluster, tmp_path):
    plain = hosts[1].run(sys.executable, "-c", CLIENT, cluster.replace("tls:", "tcp:"), "3")
    assert plain.returncode == 1
    assert "refused: " in plain.stderr
    run(str(DEPLOY / "two-hosts" / "certificates.sh"), str(tmp_path))
    stranger = as_client(hosts[1], tmp_path / "tls", "-c", CLIENT, cluster, "3")
    assert stranger.returncode == 1
    assert re.search("refused: .*certificate verify failed", stranger.stderr)


@pytest.mark.parametrize("days", ["abc", "0", "-1", "1.5", "99999999999999999999"])
def test_certificates_that_cannot_be_made_leave_the_old_ones(tls, tmp_path, days):
    shutil.copytree(tls.parent, tmp_path / "pki")
    before = {path.name: path.read_bytes() for path in sorted((tmp_path / "pki").rglob("*")) if path.is_file()}
    assert run(str(DEPLOY / "two-hosts" / "certificates.sh"), str(tmp_path / "pki"), days).returncode != 0
    after = {path.name: path.read_bytes() for path in sorted((tmp_path / "pki").rglob("*")) if path.is_file()}
    assert after == before


# -- the image


def pinned():
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def requirements(project, *extras):
    """What the project needs, with extras of its own that extras name."""
    declared = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    for need in map(Requirement, declared):
        if need.name == project["name"]:
            yield from requirements(project, *need.extras)
        else:
            yield need


def test_every_dependency_of_the_image_is_pinned():
    """Else: the command at the top of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = pinned()
    wrong = [
        str(need)
        for need in requirements(project, "deploy")
        if need.name not in versions or versions[need.name] not in need.specifier
    ]
    assert wrong == []


def test_dockerfile_passes_hadolint():
    done = run(program("hadolint"), str(DEPLOY / "Dockerfile"))
    assert done.returncode == 0, done.stdout


def test_image_is_pinned_and_not_of_root():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line for line in lines if line.startswith("FROM ")]
    assert all(re.search(r":[\d.]+-slim-bookworm@sha256:[0-9a-f]{64}( AS \w+)?$", line) for line in bases)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users, "the image runs as root"
    assert all(re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) for user in users)


def test_nothing_but_the_program_goes_into_the_image():
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(kept) == sorted(" ".join(copied).split())
    assert all((ROOT / path).exists() for path in kept)


# -- compose


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())


def folder_of(package, *names):
    """A folder within an installed package, which is not imported; the test is skipped without it."""
    found = find_spec(package) or pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent.joinpath(*names)


def test_compose_file_is_of_its_schema(compose):
    schema = json.loads((folder_of("check_jsonschema", "builtin_schemas", "vendor") / "compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    assert [error.message for error in validator(schema).iter_errors(compose)] == []


def test_containers_may_do_little(compose):
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert re.search(r":[\w.]+(@sha256:[0-9a-f]{64})?$", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    assert compose["networks"]["cluster"] == {"internal": True}


def test_keys_are_not_in_the_compose_file(compose):
    for service in compose["services"].values():
        secret = (
            [value for name, value in service["environment"].items() if "KEY" in name]
            if "environment" in service
            else []
        )
        assert all(value.startswith(("${S3_", "/tls/")) for value in secret)


DASK = ("scheduler", "worker", "bigsmic")


def test_containers_speak_tls_alone(compose):
    """A network of their own is not enough: processes of the machine reach the addresses of all containers."""
    for name in DASK:
        service = compose["services"][name]
        assert service["environment"]["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True", name
        assert "./pki/tls:/tls:ro" in service["volumes"], name
        assert service["user"] == "${RUN_AS:?write .env first}", "whose keys they are"
        assert not re.search(r"\btcp://", " ".join(service["command"])), name
    section = (ROOT / "docs" / "deploy.md").read_text().split("## Docker compose")[1].split("\n## ")[0]
    assert "certificates.sh pki" in section
    assert "RUN_AS=" in section
    assert "tcp://" not in section


@pytest.mark.end_to_end
def test_nobody_without_a_certificate_runs_code_in_the_containers(compose, tls, tmp_path):
    """Scheduler and worker are started as their containers say, with other paths and ports."""
    port, started = free_port(), []
    replaced = {"tls://scheduler:8786": f"tls://127.0.0.1:{port}", ":8787": "127.0.0.1:0"}
    variables = {name: _variables(compose["services"][name], tls) for name in DASK}
    more = {
        "scheduler": ["--port", str(port), "--host", "127.0.0.1"],
        "worker": ["--local-directory", tmp_path, "--host", "127.0.0.1", "--memory-limit", "1GiB"],
    }
    ask = "import sys; from distributed import Client; c = Client(sys.argv[1], timeout=sys.argv[2]); "
    ask += "c.wait_for_workers(1, timeout=240); print(c.submit(sum, [1, 2]).result())"
    try:
        for name, options in more.items():
            command = [replaced.get(word, word) for word in compose["services"][name]["command"]] + options
            environment = ENVIRONMENT | variables[name]
            started.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        asked = [sys.executable, "-c", ask, f"tls://127.0.0.1:{port}"]
        client = subprocess.run(
            [*asked, "240"], env=ENVIRONMENT | variables["bigsmic"], capture_output=True, text=True, check=False
        )
        assert client.stdout == "3\n", client.stderr
        for address in (asked[-1], asked[-1].replace("tls:", "tcp:")):
            stranger = run(*asked[:-1], address, "3")
            assert (stranger.returncode, stranger.stdout) == (1, ""), stranger.stderr
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _variables(service, tls):
    """What a container's Dask is told, with the certificates where they are here."""
    variables = service["environment"].items()
    return {name: value.replace("/tls/", f"{tls}/") for name, value in variables if name.startswith("DASK_")}


# -- Kubernetes


def by_name(manifests):
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


@pytest.fixture(scope="module")
def objects():
    """Every object of the folder, with the resources that kustomize patches in."""
    folder = DEPLOY / "kubernetes"
    files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    found = by_name(manifest for file in files for manifest in yaml.safe_load_all((folder / file).read_text()))
    (patch,) = yaml.safe_load((folder / "resources.yaml").read_text())
    assert (patch["op"], patch["path"]) == ("replace", "/spec/worker/spec/containers/0/resources")
    found["DaskCluster", "bigsmic"]["spec"]["worker"]["spec"]["containers"][0]["resources"] = patch["value"]
    return found


def test_kustomize_makes_the_same_of_it(objects):
    done = run(program("kubectl"), "kustomize", str(DEPLOY / "kubernetes"))
    assert done.returncode == 0, done.stderr
    built = by_name(yaml.safe_load_all(done.stdout))
    for manifest in built.values():
        assert manifest["metadata"].pop("namespace") == "bigsmic"
    assert built == objects


def pods(objects):
    """Every pod's specification, by what makes it."""
    cluster = objects["DaskCluster", "bigsmic"]["spec"]
    found = {role: cluster[role]["spec"] for role in ("scheduler", "worker")}
    for (kind, name), manifest in objects.items():
        if kind == "CronJob":
            found[name] = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def test_objects_are_what_there_should_be(objects):
    cron_jobs = {("CronJob", f"bigsmic-{name}") for name in ("fit", "nightly", "predict")}
    others = {(kind, "bigsmic") for kind in ("DaskCluster", "DaskAutoscaler", "NetworkPolicy")}
    of_nights = {("ConfigMap", "bigsmic-nightly"), ("PersistentVolumeClaim", "bigsmic-nights")}
    assert set(objects) == cron_jobs | others | of_nights


def test_core_objects_are_of_their_schemas(objects):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for (kind, _), manifest in objects.items():
        if not kind.startswith("Dask"):
            kubernetes_validate.validate(manifest, "1.31", strict=True)
    for name, specification in pods(objects).items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": specification}
        kubernetes_validate.validate(pod, "1.31", strict=True)


@pytest.mark.parametrize("kind", ["DaskCluster", "DaskAutoscaler"])
def test_dask_objects_are_of_the_schemas_of_the_operator(objects, kind):
    charts = folder_of("dask_kubernetes", "operator", "deployment", "helm", "dask-kubernetes-operator", "crds")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 280 kB of it
    definition = yaml.load((charts / f"{kind.lower()}.yaml").read_text(), loader)
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == "v1"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
    errors = jsonschema.Draft4Validator(schema).iter_errors(objects[kind, "bigsmic"])
    assert [f"{list(error.path)}: {error.message}" for error in errors] == []


def closed(schema):
    """A structural schema without room for fields that it does not name; integers or strings are left alone."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if schema.pop("x-kubernetes-int-or-string", False):
        return {}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and "type" in schema and not open_ended:
        schema["additionalProperties"] = False
    return schema


def test_pods_may_do_little(objects):
    for name, pod in pods(objects).items():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"], name
        assert not security["allowPrivilegeEscalation"], name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"], name


def test_pods_speak_tls_alone(objects):
    for name, pod in pods(objects).items():
        (container,) = pod["containers"]
        environment = {one["name"]: one.get("value") for one in container["env"]}
        assert environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True", name
        assert not re.search(r"\btcp://", " ".join(container["args"])), name


@pytest.mark.end_to_end
def test_the_operator_may_ask_the_scheduler_which_workers_can_go(objects, tls):
    """Over HTTP: it has no certificate. The scheduler is started as its pod says, with other paths and ports."""
    (container,) = pods(objects)["scheduler"]["containers"]
    variables = {one["name"]: one["value"].replace("/tls/", f"{tls}/") for one in container["env"]}
    dashboard = free_port()
    replaced = {":8787": f"127.0.0.1:{dashboard}"}
    command = [replaced.get(word, word) for word in container["args"]] + ["--port", "0", "--host", "127.0.0.1"]
    process = subprocess.Popen(command, env=ENVIRONMENT | variables, stderr=subprocess.DEVNULL)
    try:
        answer = wait_for_json(f"http://127.0.0.1:{dashboard}/api/v1/adaptive_target")
    finally:
        process.terminate()
        process.wait(30)
    assert answer == {"workers": 0}


def wait_for_json(url, seconds=120):
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def test_a_job_that_cannot_succeed_is_not_tried_again(objects):
    from bigsmic import errors
    from bigsmic.cli import main

    for name in ("bigsmic-fit", "bigsmic-nightly", "bigsmic-predict"):
        job = objects["CronJob", name]["spec"]["jobTemplate"]["spec"]
        (never,) = [rule for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
        passing = {main.EXIT_CODES[kind] for kind in (errors.RunLockedError, errors.StorageError, errors.ClusterError)}
        hopeless = {2, *main.EXIT_CODES.values()} - passing
        assert set(never["onExitCodes"]["values"]) == hopeless
        assert never["onExitCodes"]["containerName"] == job["template"]["spec"]["containers"][0]["name"]


def test_the_job_of_the_nights_can_be_used(objects, tmp_path):
    (tmp_path / "job.toml").write_text(objects["ConfigMap", "bigsmic-nightly"]["data"]["job.toml"])
    job = Job.read(tmp_path / "job.toml")
    pod = pods(objects)["bigsmic-nightly"]
    (container,) = pod["containers"]
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert (job.folder, container["args"][0]) == (mounted["nights"], f"{mounted['job']}/job.toml")
    assert parse_bytes(job.memory_limit) < int(container["resources"]["limits"]["memory"].removesuffix("Gi")) << 30


def test_resources_are_those_of_the_plan(blobs, tmp_path):
    zarr.create_array(str(tmp_path / "X.zarr"), shape=blobs[0].shape, chunks=(100, 5), dtype="f4")[:] = blobs[0]
    planned = run(
        sys.executable, "-m", "bigsmic", "plan", str(tmp_path / "X.zarr"), "-c", "4", "--threads", "3", "--json"
    )
    assert planned.returncode == 0, planned.stderr
    made = run(sys.executable, str(DEPLOY / "kubernetes" / "resources.py"), input=planned.stdout)
    assert made.returncode == 0, made.stderr
    (patch,) = yaml.safe_load(made.stdout)
    (shipped,) = yaml.safe_load((DEPLOY / "kubernetes" / "resources.yaml").read_text())
    assert {**shipped, "value": None} == {**patch, "value": None}
    gib = int(patch["value"]["limits"]["memory"].removesuffix("Gi"))
    assert 2**30 * (gib - 1) < 1.4 * json.loads(planned.stdout)["peak_bytes"] <= 2**30 * gib
    assert patch["value"]["requests"] == {"cpu": "3", **patch["value"]["limits"]}


# -- systemd


def test_units_are_verified(tmp_path):
    program("systemd-analyze")
    for unit in (DEPLOY / "systemd").glob("bigsmic@.*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/bigsmic/bin/bigsmic", program("bigsmic")))
    units = [str(tmp_path / f"bigsmic@spikes.{kind}") for kind in ("service", "timer")]
    done = run("systemd-analyze", "verify", *units)
    assert (done.returncode, done.stderr) == (0, "")


def service():
    """Settings of the unit, by name; of several, the last."""
    lines = (DEPLOY / "systemd" / "bigsmic@.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@pytest.mark.end_to_end
def test_the_unit_does_what_its_job_file_says(tmp_path):
    rows = np.random.default_rng(0).standard_normal((200, 3)) + 9 * np.eye(3)[np.arange(200) % 3]
    zarr.create_array(tmp_path / "machine.zarr", data=rows.astype("f4"))
    text = (DEPLOY / "systemd" / "bigsmic@.service").read_text()
    job = "\n".join(line.removeprefix("#   ") for line in text.splitlines() if re.match(r"#   \w+ = ", line))
    places = {"/srv/machine.zarr": "machine.zarr", "/var/lib/bigsmic/NAME": "nights"}
    for place, here in places.items():
        assert place in job
        job = job.replace(place, str(tmp_path / here))
    (tmp_path / "NAME.toml").write_text(job + "\n[fit]\nc = 3\n")
    command = service()["ExecStart"].replace("/etc/bigsmic/%i.toml", str(tmp_path / "NAME.toml")).split()
    for sentence in ("fitted (first), 3 clusters", "Nothing to do"):
        done = run(program("bigsmic"), *command[1:], "--json")
        assert done.returncode == 0, done.stderr
        assert sentence in json.loads(done.stdout)["sentence"]
    assert len(bigsmic.Result.open(tmp_path / "nights" / "latest").labels) == 200


def test_the_unit_is_not_started_again_where_that_does_not_help():
    from bigsmic import errors
    from bigsmic.cli import main

    passing = {main.EXIT_CODES[kind] for kind in (errors.RunLockedError, errors.StorageError, errors.ClusterError)}
    hopeless = {2, *main.EXIT_CODES.values()} - passing
    assert set(map(int, service()["RestartPreventExitStatus"].split())) == hopeless


# -- SLURM


def seconds(text):
    """Of a time as Dask and as SLURM write it."""
    if text.endswith("m"):
        return 60 * int(text[:-1])
    hours, minutes, rest = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + rest


@pytest.mark.end_to_end
def test_workers_retire_before_their_jobs_end():
    slurm = yaml.safe_load((DEPLOY / "slurm" / "jobqueue.yaml").read_text())["jobqueue"]["slurm"]
    options = dict(zip(slurm["worker-extra-args"], slurm["worker-extra-args"][1:], strict=False))
    latest = seconds(options["--lifetime"]) + seconds(options["--lifetime-stagger"])
    assert latest + 240 <= seconds(slurm["walltime"])
    assert "--no-requeue" in slurm["job-extra-directives"]
