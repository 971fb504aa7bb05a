"""Checks what the chart renders to.

usage: kubernetes_check.py MANIFESTS CRDS    two folders; see kubernetes.sh.
                                             MANIFESTS/kserve has KServe's

Each object fits the schema of its kind, for three versions of Kubernetes, or of
its operator. The grace period is longer than the drain, probes have a port that
answers in plaintext, and the files that topkd reads are mounted.
"""

import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus/alerts.yml"
VERSIONS = ("1.37.0", "1.36.0", "1.35.0")


def load(path):
    text = path.read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one]


def closed(schema):
    """Returns a schema that refuses properties that it does not name, as the
    API server does when asked to be strict."""
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
        # Go has such a flag anywhere, Python at the start alone.
        schema["pattern"] = "(?i)" + pattern.replace("(?i)", "")
    return schema


def operators_schemas(folder):
    """Returns {(apiVersion, kind): schema} of the CRDs in a folder."""
    schemas = {}
    for path in folder.glob("*.yaml"):
        for crd in load(path):
            spec = crd["spec"]
            for version in spec["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                schemas[f"{spec['group']}/{version['name']}",
                        spec["names"]["kind"]] = schema
    return schemas


def check_schemas(name, objects, schemas):
    for one in objects:
        schema = schemas.get((one["apiVersion"], one["kind"]))
        try:
            if schema is not None:
                jsonschema.validate(one, schema)
                continue
            for version in VERSIONS:
                used = kubernetes_validate.validate(one, version, strict=True)
                assert version.startswith(used), (version, used)
        except (jsonschema.ValidationError,
                kubernetes_validate.ValidationError) as error:
            sys.exit(f"{name}: {one['kind']} {one['metadata']['name']}: "
                     f"{error.message}")
    kinds = sorted(one["kind"] for one in objects)
    print(f"== {name}: {len(kinds)} objects fit: {', '.join(kinds)}")


def labels_match(selector, deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    return selector.items() <= labels.items()


def pod_of(objects, name):
    """Returns the pod and the container of a Deployment's only container."""
    pod, = (pod for pod in (one["spec"]["template"]["spec"] for one in objects
                            if one["kind"] == "Deployment")
            if pod["containers"][0]["name"] == name)
    container, = pod["containers"]
    return pod, container


def check_selectors(objects):
    """Each selector matches the pods of exactly one Deployment, and a Service's
    ports are those of its pods."""
    deployments = [one for one in objects if one["kind"] == "Deployment"]
    for one in objects:
        selector = {"Service": lambda spec: spec["selector"],
                    "PodDisruptionBudget":
                        lambda spec: spec["selector"]["matchLabels"],
                    "Deployment": lambda spec: spec["selector"]["matchLabels"],
                    "NetworkPolicy":
                        lambda spec: spec["podSelector"]["matchLabels"],
                    }.get(one["kind"])
        if selector is None:
            continue
        selected, = (deployment for deployment in deployments
                     if labels_match(selector(one["spec"]), deployment))
        container, = selected["spec"]["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        if one["kind"] == "Service":
            for port in one["spec"]["ports"]:
                assert port["targetPort"] in ports, port


def check_haproxy(objects):
    """The Service leads to HAProxy, and HAProxy to topkd, in plaintext and
    without a limit of one client; only HAProxy may call topkd."""
    _, haproxy = pod_of(objects, "haproxy")
    _, topkd = pod_of(objects, "topkd")
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    deployment = named["Deployment", "topkd-haproxy"]
    service = named["Service", "topkd"]["spec"]
    assert labels_match(service["selector"], deployment), service
    assert service["externalTrafficPolicy"] == "Local", service
    environment = {one["name"]: one.get("value") for one in haproxy["env"]}
    assert environment["TOPK_SERVERS"].startswith(
        "topkd-headless.default.svc."), environment
    assert ("Service", "topkd-headless") in named
    assert environment["TOPK_CALL_RATE"] == "10000000", environment
    limits = {one["name"]: one["value"] for one in topkd["env"]}
    assert "TOPKD_TLS_CERT" not in limits, limits
    assert limits["TOPKD_MAX_CLIENT_INFLIGHT_BYTES"] == "1TiB", limits
    assert limits["TOPKD_MAX_CLIENT_INFLIGHT_CALLS"] == "0", limits
    assert limits["TOPKD_MAX_ELEMENTS"] == "10000000", limits
    peers = [rule["from"] for rule in
             named["NetworkPolicy", "topkd"]["spec"]["ingress"]
             if {"port": "grpc"} in rule["ports"]]
    assert len(peers) == len(peers[0]) == 1 and labels_match(
        peers[0][0]["podSelector"]["matchLabels"], deployment), peers


def check_names(objects):
    """The names of Services are DNS labels, also for a long release's name."""
    names = [one["metadata"]["name"] for one in objects
             if one["kind"] == "Service"]
    assert len(names) == 3 and max(map(len, names)) <= 63, names


def check_deployment(objects):
    """Checks rules of a Deployment and related objects that no schema has."""
    pod, container = pod_of(objects, "topkd")
    environment = {one["name"]: one["value"] for one in container["env"]}
    drain = sum(int(environment[name].rstrip("s"))
                for name in ("TOPKD_DRAIN_DELAY", "TOPKD_DRAIN_TIMEOUT"))
    assert drain + 5 <= pod["terminationGracePeriodSeconds"], drain
    ports = {one["containerPort"]: one["name"] for one in container["ports"]}
    probed = {container[probe]["grpc"]["port"] for probe in
              ("startupProbe", "livenessProbe", "readinessProbe")}
    tls = "TOPKD_TLS_CERT" in environment
    assert [ports[port] for port in probed] == ["health" if tls else "grpc"]
    mounts = [one["mountPath"] for one in container.get("volumeMounts", [])]
    for value in environment.values():
        if value.startswith("/"):
            assert any(value.startswith(mount) for mount in mounts), value


def check_gateways(objects):
    """The Gateways of each route may call the pods."""
    gateways = {parent["namespace"] for one in objects
                if one["kind"] == "GRPCRoute"
                for parent in one["spec"]["parentRefs"]}
    let_in = {peer["namespaceSelector"]["matchLabels"][
                  "kubernetes.io/metadata.name"]
              for one in objects if one["kind"] == "NetworkPolicy"
              for rule in one["spec"]["ingress"]
              if {"port": "grpc"} in rule["ports"]
              for peer in rule["from"] if "namespaceSelector" in peer}
    assert gateways <= let_in, (gateways, let_in)
    return gateways


def check_scaling(name, objects):
    """Bytes in flight count only where they are asked for: without
    prometheus-adapter they would keep Kubernetes from scaling down."""
    metrics = [metric["type"] for one in objects
               if one["kind"] == "HorizontalPodAutoscaler"
               for metric in one["spec"]["metrics"]]
    assert ("Pods" in metrics) == (name == "all"), (name, metrics)


def check_rules(objects):
    rules = [one["spec"] for one in objects if one["kind"] == "PrometheusRule"]
    assert rules == [yaml.safe_load(RULES.read_text(encoding="utf-8"))]


def check_kserve(objects):
    """The InferenceService can use the ServingRuntime, KServe finds the
    container and its port, and the pod may drain."""
    runtime, = (one for one in objects if one["kind"] == "ServingRuntime")
    service, = (one for one in objects if one["kind"] == "InferenceService")
    predictor, spec = service["spec"]["predictor"], runtime["spec"]
    model = predictor["model"]
    assert model["runtime"] == runtime["metadata"]["name"], model
    assert model["protocolVersion"] in spec["protocolVersions"], model
    assert any(model["modelFormat"].items() <= one.items()
               for one in spec["supportedModelFormats"]), model
    container, = spec["containers"]
    port, = container["ports"]
    assert (container["name"], port["name"]) == ("kserve-container", "h2c")
    environment = {one["name"]: one["value"] for one in container["env"]}
    listen = environment["TOPKD_LISTEN"].rpartition(":")[2]
    probed = {container[probe]["grpc"]["port"]
              for probe in ("livenessProbe", "readinessProbe")}
    assert {int(listen)} == probed == {port["containerPort"]}, probed
    # The image's delay, the default timeout, and 5 s.
    assert 5 + 25 + 5 <= predictor["terminationGracePeriodSeconds"]


def main():
    manifests = {path.stem: load(path)
                 for path in sorted(pathlib.Path(sys.argv[1]).glob("*.yaml"))}
    schemas = operators_schemas(pathlib.Path(sys.argv[2]))
    assert len(manifests) == 4, manifests.keys()
    for name, objects in manifests.items():
        check_schemas(name, objects, schemas)
        check_deployment(objects)
        check_selectors(objects)
        check_scaling(name, objects)
        assert bool(check_gateways(objects)) == (name == "all")
    check_rules(manifests["all"])
    check_haproxy(manifests["haproxy"])
    check_names(load(pathlib.Path(sys.argv[1], "long")))
    for path in pathlib.Path(sys.argv[1], "kserve").glob("*.yaml"):
        objects = load(path)
        check_schemas("kserve", objects, schemas)
        check_kserve(objects)


if __name__ == "__main__":
    main()
