"""Checks rules for the chart's manifests that schemas cannot express.

usage: kubernetes_check.py MANIFESTS          a folder; KServe's manifests are
                                              in MANIFESTS/kserve
       kubernetes_check.py --schemas FOLDER   writes the schemas of the CRDs in
                                              FOLDER for kubeconform

For example, the grace period must be longer than the drain, probes need a port
that answers in plaintext, and the files that topkd reads must be mounted.
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
    """Returns the schema changed to reject unknown properties, as the API
    server does in strict mode."""
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
        # Go allows the flag anywhere, Python only at the start.
        schema["pattern"] = "(?i)" + pattern.replace("(?i)", "")
    return schema


def write_schemas(folder):
    """Writes the schemas of a folder's CRDs, with kubeconform's file names."""
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
    """Returns {Deployment name: its only container}."""
    found = {}
    for spec in of_kind("Deployment", objects):
        container, = spec["template"]["spec"]["containers"]
        found[container["name"]] = container
    return found


def environment(container):
    return {one["name"]: one.get("value") for one in container["env"]}


def check_selectors(objects):
    """Checks that each selector matches the pods of exactly one Deployment, and
    that these pods have the Service's ports."""
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
    """Returns the Deployments whose pods have these labels."""
    return [spec for spec in of_kind("Deployment", objects)
            if labels.items() <= spec["template"]["metadata"]["labels"].items()]


def callers(objects):
    """Returns the peers that the NetworkPolicies allow to call topkd."""
    return [peer for one in objects if one["kind"] == "NetworkPolicy" and
            one["metadata"]["name"] == "topkd"
            for rule in one["spec"]["ingress"]
            if {"port": "grpc"} in rule["ports"] for peer in rule["from"]]


def check_haproxy(objects):
    """Checks that the Service leads to HAProxy, that HAProxy calls topkd in
    plaintext and without a limit per client, and that only HAProxy may call
    topkd."""
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
    """Checks the rules for topkd's pods."""
    container = containers(objects)["topkd"]
    variables = environment(container)
    drain = sum(int(variables[name].rstrip("s"))
                for name in ("TOPKD_DRAIN_DELAY", "TOPKD_DRAIN_TIMEOUT"))
    pod, = (spec["template"]["spec"] for spec in of_kind("Deployment", objects)
            if spec["template"]["spec"]["containers"] == [container])
    assert drain + 5 <= pod["terminationGracePeriodSeconds"], drain
    ports = {one["containerPort"]: one["name"] for one in container["ports"]}
    # The chart's values may replace the other probes.
    probed = {ports[container[probe]["grpc"]["port"]] for probe in
              ("startupProbe", "readinessProbe")}
    assert probed == {"health" if "TOPKD_TLS_CERT" in variables else "grpc"}
    mounts = [one["mountPath"] for one in container.get("volumeMounts", [])]
    for value in variables.values():
        if value.startswith("/"):
            assert any(value.startswith(mount) for mount in mounts), value


def check_options(name, objects):
    """Checks that the Gateways of routes may call the pods, and that the
    autoscaler uses bytes in flight only if the values enable it: without
    prometheus-adapter, this metric would prevent scaling down."""
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
    """Checks that the InferenceService can use the ServingRuntime, that KServe
    finds the container and its port, and that the pod has time to drain."""
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
    # The image's drain-delay, the default drain-timeout, and 5 s.
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
    # Service names must be DNS labels, even if the release has a long name.
    names = [one["metadata"]["name"] for one in load(folder / "long")
             if one["kind"] == "Service"]
    assert len(names) == 3 and max(map(len, names)) <= 63, names
    for path in (folder / "kserve").glob("*.yaml"):
        objects = load(path)
        check_kserve(objects)


if __name__ == "__main__":
    main()
