"""Checks the rules of the chart's manifests that no schema has.

usage: kubernetes_check.py MANIFESTS          a folder; MANIFESTS/kserve has
                                              KServe's
       kubernetes_check.py --schemas FOLDER   writes the schemas of the CRDs in
                                              FOLDER for kubeconform

The grace period is longer than the drain, probes have a port that answers in
plaintext, and the files that topkd reads are mounted.
"""

import json
import pathlib
import sys

import yaml


def load(path):
    text = path.read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(kind, objects):
    return [one["spec"] for one in objects if one["kind"] == kind]


def closed(schema):
    """Returns a schema that rejects properties that it does not name, as the
    API server does in strict mode."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get(
            "x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and "(?i)" in pattern:
        # Go accepts the flag anywhere, Python only at the start.
        schema["pattern"] = "(?i)" + pattern.replace("(?i)", "")
    return schema


def write_schemas(folder):
    """Writes the schemas of the CRDs in a folder, named as kubeconform asks."""
    for path in folder.glob("*_*s.yaml"):
        for spec in of_kind("CustomResourceDefinition", load(path)):
            for version in spec["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                name = "-".join((spec["names"]["kind"].lower(),
                                 spec["group"].split(".")[0], version["name"]))
                (folder / f"{name}.json").write_text(json.dumps(schema),
                                                     encoding="utf-8")


def containers(objects):
    """Returns the only container of each Deployment by its name."""
    found = {}
    for spec in of_kind("Deployment", objects):
        container, = spec["template"]["spec"]["containers"]
        found[container["name"]] = container
    return found


def environment(container):
    return {one["name"]: one.get("value") for one in container["env"]}


def check_selectors(objects):
    """Each selector matches the pods of one Deployment, and a Service's ports
    are those of its pods."""
    for one in objects:
        if one["kind"] not in ("Service", "PodDisruptionBudget", "Deployment",
                               "NetworkPolicy"):
            continue
        spec = one["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        selected, = matching(objects, selector.get("matchLabels", selector))
        ports = {port["name"] for port in
                 selected["template"]["spec"]["containers"][0]["ports"]}
        if one["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= ports, spec


def matching(objects, labels):
    """Returns the Deployments with pods of these labels."""
    return [spec for spec in of_kind("Deployment", objects)
            if labels.items() <= spec["template"]["metadata"]["labels"].items()]


def callers(objects):
    """Returns the peers that the policies allow to call topkd."""
    return [peer for one in objects if one["kind"] == "NetworkPolicy" and
            one["metadata"]["name"] == "topkd"
            for rule in one["spec"]["ingress"]
            if {"port": "grpc"} in rule["ports"] for peer in rule["from"]]


def check_haproxy(objects):
    """The Service leads to HAProxy, and HAProxy to topkd, in plaintext and
    without a limit of one client; only HAProxy may call topkd."""
    services = {one["metadata"]["name"]: one["spec"] for one in objects
                if one["kind"] == "Service"}
    front, = matching(objects, services["topkd"]["selector"])
    haproxy, = front["template"]["spec"]["containers"]
    assert haproxy["name"] == "haproxy", front
    assert services["topkd"]["externalTrafficPolicy"] == "Local", services
    variables = environment(haproxy)
    assert variables["TOPK_SERVERS"].startswith(
        "topkd-headless.default.svc.") and "topkd-headless" in services
    assert variables["TOPK_CALL_RATE"] == "10000000", variables
    limits = environment(containers(objects)["topkd"])
    assert "TOPKD_TLS_CERT" not in limits, limits
    assert limits["TOPKD_MAX_CLIENT_INFLIGHT_BYTES"] == "1TiB", limits
    assert limits["TOPKD_MAX_CLIENT_INFLIGHT_CALLS"] == "0", limits
    assert limits["TOPKD_MAX_ELEMENTS"] == "10000000", limits
    peer, = callers(objects)
    assert matching(objects, peer["podSelector"]["matchLabels"]) == [front]


def check_deployment(objects):
    """Checks the rules of topkd's pods that no schema has."""
    container = containers(objects)["topkd"]
    variables = environment(container)
    drain = sum(int(variables[name].rstrip("s"))
                for name in ("TOPKD_DRAIN_DELAY", "TOPKD_DRAIN_TIMEOUT"))
    pod, = (spec["template"]["spec"] for spec in of_kind("Deployment", objects)
            if spec["template"]["spec"]["containers"] == [container])
    assert drain + 5 <= pod["terminationGracePeriodSeconds"], drain
    ports = {one["containerPort"]: one["name"] for one in container["ports"]}
    # Values may replace the others.
    probed = {ports[container[probe]["grpc"]["port"]] for probe in
              ("startupProbe", "readinessProbe")}
    assert probed == {"health" if "TOPKD_TLS_CERT" in variables else "grpc"}
    mounts = [one["mountPath"] for one in container.get("volumeMounts", [])]
    for value in variables.values():
        if value.startswith("/"):
            assert any(value.startswith(mount) for mount in mounts), value


def check_options(name, objects):
    """The Gateways of routes may call the pods. Bytes in flight count only on
    request: without prometheus-adapter they would prevent scaling down."""
    gateways = {parent["namespace"] for spec in of_kind("GRPCRoute", objects)
                for parent in spec["parentRefs"]}
    allowed = {peer["namespaceSelector"]["matchLabels"][
                   "kubernetes.io/metadata.name"]
               for peer in callers(objects) if "namespaceSelector" in peer}
    assert gateways <= allowed, (gateways, allowed)
    metrics = [metric["type"]
               for spec in of_kind("HorizontalPodAutoscaler", objects)
               for metric in spec["metrics"]]
    assert bool(gateways) == ("Pods" in metrics) == (name == "all"), name


def check_kserve(objects):
    """The InferenceService can use the ServingRuntime, KServe finds the
    container and its port, and the pod may drain."""
    runtime, = of_kind("ServingRuntime", objects)
    service, = of_kind("InferenceService", objects)
    model = service["predictor"]["model"]
    assert model["runtime"] in [one["metadata"]["name"] for one in objects
                                if one["kind"] == "ServingRuntime"], model
    assert model["protocolVersion"] in runtime["protocolVersions"], model
    assert any(model["modelFormat"].items() <= one.items()
               for one in runtime["supportedModelFormats"]), model
    container, = runtime["containers"]
    port, = container["ports"]
    assert (container["name"], port["name"]) == ("kserve-container", "h2c")
    listen = environment(container)["TOPKD_LISTEN"].rpartition(":")[2]
    probed = {container[probe]["grpc"]["port"]
              for probe in ("livenessProbe", "readinessProbe")}
    assert {int(listen)} == probed == {port["containerPort"]}, probed
    # The image's delay, the default timeout, and 5 s.
    assert 5 + 25 + 5 <= service["predictor"]["terminationGracePeriodSeconds"]


def main():
    if sys.argv[1] == "--schemas":
        write_schemas(pathlib.Path(sys.argv[2]))
        return
    folder = pathlib.Path(sys.argv[1])
    manifests = {path.stem: load(path) for path in folder.glob("*.yaml")}
    assert len(manifests) == 3, manifests.keys()
    for name, objects in manifests.items():
        check_deployment(objects)
        check_selectors(objects)
        check_options(name, objects)
    check_haproxy(manifests["haproxy"])
    # Names of Services are DNS labels, also for a release with a long name.
    names = [one["metadata"]["name"] for one in load(folder / "long")
             if one["kind"] == "Service"]
    assert len(names) == 3 and max(map(len, names)) <= 63, names
    for path in (folder / "kserve").glob("*.yaml"):
        objects = load(path)
        check_kserve(objects)


if __name__ == "__main__":
    main()
