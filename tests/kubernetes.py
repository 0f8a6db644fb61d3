"""Checks config/kubernetes: against the API's schemas, and against the gateway itself.

    .tools/venv/bin/python tests/kubernetes.py target/release/spillway

Needs kubernetes-validate, which tests/run --only install brings.
"""

import pathlib
import subprocess
import sys
import tempfile
import tomllib

import kubernetes_validate
import yaml

FOLDER = pathlib.Path(__file__).parent.parent / "config" / "kubernetes"
# The oldest that is still in wide use, and the newest that the package knows.
VERSIONS = ("1.29", kubernetes_validate.latest_version())
# Defined by the Prometheus operator, not by Kubernetes.
FOREIGN = {"ServiceMonitor"}


def objects():
    for file in sorted(FOLDER.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def check_schemas(all_objects):
    for obj in all_objects:
        for version in VERSIONS:
            if obj["kind"] not in FOREIGN:
                kubernetes_validate.validate(obj, version, strict=True)


def seconds(text):
    assert text.endswith("s"), text
    return int(text[:-1])


def check_deployment(deployment, config):
    pod = deployment["spec"]["template"]["spec"]
    (gateway,) = pod["containers"]
    assert gateway["resources"]["requests"] == gateway["resources"]["limits"], "requests are not limits"
    cpu = gateway["resources"]["limits"]["cpu"]
    assert str(cpu).isdigit(), f"{cpu} is no whole number of processors"
    sleep, waits = gateway["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    drain = int(waits) + seconds(config["shutdown"]["grace"])
    grace = pod["terminationGracePeriodSeconds"]
    assert drain < grace, f"preStop and shutdown.grace take {drain} s of {grace}"
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert gateway[probe]["httpGet"] == {"path": path, "port": "admin"}, probe
    assert pod["securityContext"]["runAsNonRoot"] and gateway["securityContext"]["readOnlyRootFilesystem"]
    return {port["name"]: port["containerPort"] for port in gateway["ports"]}


def check_links(by_kind, deployment, ports):
    """Selectors find the pod, ports have its names."""
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [service["spec"]["selector"] for service in by_kind["Service"]]
    selectors += [by_kind["PodDisruptionBudget"][0]["spec"]["selector"]["matchLabels"]]
    selectors += [by_kind["NetworkPolicy"][0]["spec"]["podSelector"]["matchLabels"]]
    assert all(selector == labels for selector in selectors), selectors
    used = [port["targetPort"] for service in by_kind["Service"] for port in service["spec"]["ports"]]
    used += [port["port"] for rule in by_kind["NetworkPolicy"][0]["spec"]["ingress"] for port in rule["ports"]]
    assert set(used) == set(ports), used
    monitor = by_kind["ServiceMonitor"][0]["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    found = [s for s in by_kind["Service"] if wanted <= s["metadata"]["labels"].items()]
    assert len(found) == 1, "the ServiceMonitor has to find the admin Service alone"
    names = [port["name"] for port in found[0]["spec"]["ports"]]
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == names
    public = next(s for s in by_kind["Service"] if s["spec"]["type"] == "LoadBalancer")
    assert all(port["targetPort"] != "admin" for port in public["spec"]["ports"]), "the admin port is public"


def check_config(binary, deployment, text):
    """The gateway takes the file with the secrets as variables."""
    (gateway,) = deployment["spec"]["template"]["spec"]["containers"]
    secrets = {variable["name"]: "0123456789abcdef0123456789abcdef" for variable in gateway["env"]}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        said = subprocess.run([binary, "check", file.name], env=secrets, capture_output=True, text=True, timeout=20)
    assert said.returncode == 0, said.stderr


def main(binary):
    all_objects = list(objects())
    by_kind = {}
    for obj in all_objects:
        by_kind.setdefault(obj["kind"], []).append(obj)
    check_schemas(all_objects)
    (deployment,) = by_kind["Deployment"]
    text = by_kind["ConfigMap"][0]["data"]["spillway.toml"]
    config = tomllib.loads(text)
    ports = check_deployment(deployment, config)
    assert config["admin"]["listen"].endswith(f":{ports['admin']}")
    check_links(by_kind, deployment, ports)
    check_config(binary, deployment, text)
    print(f"{len(all_objects)} objects fit Kubernetes {' and '.join(VERSIONS)} and the gateway")


if __name__ == "__main__":
    main(sys.argv[1])
