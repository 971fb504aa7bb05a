"""Checks rules for the chart's manifests that schemas cannot express.

usage: kubernetes_check.py MANIFESTS          a folder; KServe's manifests are
                                              in MANIFESTS/kserve
       kubernetes_check.py --schemas FOLDER   writes the schemas of the CRDs in
                                              FOLDER for kubeconform

../cluster tests the rest in a real cluster, which has no Gateways, no
autoscaler and no KServe.
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


def callers(objects):
    """Returns the peers that the NetworkPolicies allow to call topkd."""
    return [peer for one in objects if one["kind"] == "NetworkPolicy" and
            one["metadata"]["name"] == "topkd"
            for rule in one["spec"]["ingress"]
            if {"port": "grpc"} in rule["ports"] for peer in rule["from"]]


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
    listen = {one["name"]: one.get("value") for one in container["env"]}
    probed = {f"[::]:{container[probe]['grpc']['port']}"
              for probe in ("livenessProbe", "readinessProbe")}
    assert probed == {listen["TOPKD_HEALTH_LISTEN"]}, probed
    assert listen["TOPKD_LISTEN"] == f"[::]:{port['containerPort']}", listen
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
        check_options(name, objects)
    # Service names must be DNS labels, even if the release has a long name.
    names = [one["metadata"]["name"] for one in load(folder / "long")
             if one["kind"] == "Service"]
    assert len(names) == 3 and max(map(len, names)) <= 63, names
    for path in (folder / "kserve").glob("*.yaml"):
        objects = load(path)
        check_kserve(objects)


if __name__ == "__main__":
    main()
