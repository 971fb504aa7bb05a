"""Tests xds:/// clients with a control plane. Runs in the Python environment
that venv.sh creates.

usage: xds_test.py TOPKD TOPK
"""

import concurrent.futures
import contextlib
import json
import os
import sys

import fleet
import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
# Imported so that these messages can be parsed within an Any.
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2)  # noqa: F401
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.protobuf import json_format

_TYPE = "type.googleapis.com/envoy.extensions.filters."
_ADS = {"ads": {}, "resource_api_version": "V3"}


def resources(targets):
    """Returns the resources for xds:///topk, with round-robin balancing and
    retries of calls that reach no server."""
    return {f"type.googleapis.com/{kind.DESCRIPTOR.full_name}":
            json_format.ParseDict(fields, kind()) for kind, fields in (
        (listener_pb2.Listener, {"name": "topk", "api_listener": {
            "api_listener": {
                "@type": _TYPE + "network.http_connection_manager.v3."
                                 "HttpConnectionManager",
                "http_filters": [{"name": "router", "typed_config": {
                    "@type": _TYPE + "http.router.v3.Router"}}],
                "rds": {"route_config_name": "topk", "config_source": _ADS}}}}),
        (route_pb2.RouteConfiguration, {"name": "topk", "virtual_hosts": [{
            "name": "all", "domains": ["*"],
            "retry_policy": {"retry_on": "unavailable", "num_retries": 3},
            "routes": [{"match": {"prefix": "/"},
                        "route": {"cluster": "topk"}}]}]}),
        (cluster_pb2.Cluster, {
            "name": "topk", "type": "EDS", "lb_policy": "ROUND_ROBIN",
            "eds_cluster_config": {"eds_config": _ADS}}),
        (endpoint_pb2.ClusterLoadAssignment, {
            "cluster_name": "topk", "endpoints": [{
                "locality": {"zone": "here"}, "load_balancing_weight": 1,
                "lb_endpoints": [{"endpoint": {"address": {"socket_address": {
                    "address": host, "port_value": int(port)}}}}
                    for host, port in (t.split(":") for t in targets)]}]}))}


class ControlPlane(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):
    """Sends each resource once to each client that subscribes to it."""

    def __init__(self, targets):
        self._resources = resources(targets)

    def StreamAggregatedResources(self, request_iterator, context):
        for request in request_iterator:
            assert not request.HasField("error_detail"), request
            if request.response_nonce:
                continue  # an acknowledgement of a response
            response = discovery_pb2.DiscoveryResponse(
                type_url=request.type_url, version_info="1", nonce="1")
            response.resources.add().Pack(self._resources[request.type_url])
            yield response


@contextlib.contextmanager
def control_plane(targets):
    """Serves xds:///topk to programs that are started in the with block."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(
        ControlPlane(targets), server)
    port = server.add_insecure_port("127.0.0.1:0")
    os.environ["GRPC_XDS_BOOTSTRAP_CONFIG"] = json.dumps({
        "xds_servers": [{"server_uri": f"127.0.0.1:{port}",
                         "channel_creds": [{"type": "insecure"}],
                         "server_features": ["xds_v3"]}],
        "node": {"id": "test"}})
    server.start()
    try:
        yield
    finally:
        server.stop(grace=None).wait()


def main():
    topkd, topk = sys.argv[1:]
    with fleet.fleet(topkd) as (a, b, c), control_plane([a.target, b.target]):
        with fleet.running_loads([fleet.python_load(topkd, "xds:///topk"),
                          fleet.bench(topk, "xds:///topk")], [a, b]) as loads:
            a.kill()
            fleet.await_answers([b], loads)
            requests = fleet.end_all(loads)
        assert c.answered() == 0
    print(f"ok    clients of xds:///topk: {requests} calls, none lost")


if __name__ == "__main__":
    main()
