"""A control plane of xDS: Envoy's aggregated discovery service, with all that
is known in each answer."""

import concurrent.futures
import contextlib
import importlib
import json
import queue
import threading

import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.protobuf import any_pb2, json_format

# Imports the types of messages within an Any, so that they can be parsed.
for _name in ("http.router.v3.router_pb2", "network.http_connection_manager.v3."
              "http_connection_manager_pb2"):
    importlib.import_module("envoy.extensions.filters." + _name)

LISTENER = listener_pb2.Listener
ROUTES = route_pb2.RouteConfiguration
CLUSTER = cluster_pb2.Cluster
ENDPOINTS = endpoint_pb2.ClusterLoadAssignment
_MANAGER = ("type.googleapis.com/envoy.extensions.filters.network."
            "http_connection_manager.v3.HttpConnectionManager")
_ROUTER = {"name": "router", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3."
             "Router"}}
_ADS = {"ads": {}, "resource_api_version": "V3"}


def _address(address):
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def server_listener(address):
    """The listener of a topkd that serves at the address."""
    return {"name": f"topkd/{address}", "address": _address(address),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": {
                "@type": _MANAGER, "http_filters": [_ROUTER],
                "route_config": {"virtual_hosts": [{
                    "name": "all", "domains": ["*"], "routes": [{
                        "match": {"prefix": "/"},
                        "non_forwarding_action": {}}]}]}}}]}]}


def client_listener(name):
    """The listener for xds:///name, which refers to the routes."""
    return {"name": name, "api_listener": {"api_listener": {
        "@type": _MANAGER, "http_filters": [_ROUTER],
        "rds": {"route_config_name": name, "config_source": _ADS}}}}


def routes(name):
    """All calls go to one cluster; those that reach no server are retried."""
    return {"name": name, "virtual_hosts": [{
        "name": "all", "domains": ["*"],
        "retry_policy": {"retry_on": "unavailable", "num_retries": 3},
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": name}}]}]}


def cluster(name):
    return {"name": name, "type": "EDS", "lb_policy": "ROUND_ROBIN",
            "eds_cluster_config": {"eds_config": _ADS}}


def endpoints(name, addresses):
    return {"cluster_name": name, "endpoints": [{
        "locality": {"zone": "here"}, "load_balancing_weight": 1,
        "lb_endpoints": [{"endpoint": {"address": _address(address)}}
                         for address in addresses]}]}


class ControlPlane(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):
    """Sends the resources of set() to all subscribers at once."""

    def __init__(self):
        self._lock = threading.Lock()
        self._resources = {}  # by type's name: version, resources
        self._streams = []
        self.refused = []

    def set(self, kind, *resources):
        """Has just these resources of a kind."""
        packed = []
        for one in resources:
            packed.append(any_pb2.Any())
            packed[-1].Pack(json_format.ParseDict(one, kind()))
        url = "type.googleapis.com/" + kind.DESCRIPTOR.full_name
        with self._lock:
            version = self._resources.get(url, (0, []))[0] + 1
            self._resources[url] = version, packed
            for stream in self._streams:
                stream.put(url)

    def StreamAggregatedResources(self, request_iterator, context):
        events = queue.Queue()
        with self._lock:
            self._streams.append(events)
        threading.Thread(target=self._read, args=(request_iterator, events),
                         daemon=True).start()
        asked = {}  # by type: the names
        while True:
            event = events.get()
            if event is None:
                return
            if isinstance(event, str):
                url = event
                if url not in asked:
                    continue
            else:
                url = event.type_url
                if event.HasField("error_detail"):
                    self.refused.append(event.error_detail.message)
                names = set(event.resource_names)
                # A request with a nonce and the same names only acknowledges
                # a response.
                if event.response_nonce and names == asked.get(url):
                    continue
                asked[url] = names
            with self._lock:
                version, resources = self._resources.get(url, (0, []))
            yield discovery_pb2.DiscoveryResponse(
                type_url=url, version_info=str(version), nonce=str(version),
                resources=resources)

    def _read(self, requests, events):
        with contextlib.suppress(grpc.RpcError):
            for request in requests:
                events.put(request)
        with self._lock:
            self._streams.remove(events)
        events.put(None)


@contextlib.contextmanager
def serve(plane):
    """Serves it on a free loopback port. Returns the bootstrap for it."""
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        server = grpc.server(threads)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(
            plane, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield json.dumps({
                "xds_servers": [{"server_uri": f"127.0.0.1:{port}",
                                 "channel_creds": [{"type": "insecure"}],
                                 "server_features": ["xds_v3"]}],
                "node": {"id": "test"},
                "server_listener_resource_name_template": "topkd/%s"})
        finally:
            server.stop(grace=None).wait()
