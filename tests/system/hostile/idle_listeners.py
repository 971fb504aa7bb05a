"""Idle connections to the listeners other than the main one."""

import socket

import h2
from cheap_attack import attack


def _crowd(attacker, listener, count):
    """Opens connections in different stages of a handshake and keeps them."""
    host, port = attacker.addresses[listener].rsplit(":", 1)
    sockets = []
    for number in range(count):
        one = socket.socket()
        one.settimeout(1)
        try:
            one.connect((host, int(port)))
            start = attacker.random.choice(
                (b"", h2.PREFACE[:9], h2.PREFACE + h2.settings()))
            one.sendall(h2.PREFACE + h2.settings() if number % 2 else start)
        except OSError:
            attacker.outcomes["refused"] += 1
        attacker.delivered()
        sockets.append(one)
    while attacker.goes_on():
        attacker.pause(0.1)
    for one in sockets:
        one.close()


@attack(processes=1, rounds=150, descriptors=200,
        caller={"reconnects": True}, flags=("--health-listen", "127.0.0.1:0"))
def idle_health_connections(attacker):
    """150 connections to --health-listen of a server with 200 file
    descriptors; the honest caller connects for each call."""
    _crowd(attacker, "health", 150)


@attack(processes=1, rounds=150, descriptors=200,
        caller={"reconnects": True}, flags=("--admin-listen", "127.0.0.1:0"))
def idle_admin_connections(attacker):
    """The same to --admin-listen."""
    _crowd(attacker, "admin", 150)


@attack(processes=1, rounds=2, seconds=3)
def silent_metrics_connections(attacker):
    """Connections to --metrics-listen that send nothing, or half a request."""
    host, port = attacker.addresses["metrics"].rsplit(":", 1)
    sockets = []
    for _ in range(attacker.random.randrange(2, 6)):
        one = socket.create_connection((host, int(port)), timeout=1)
        one.sendall(attacker.random.choice((b"", b"", b"GET /metrics HT")))
        attacker.delivered()
        sockets.append(one)
    while attacker.goes_on():
        attacker.pause(0.1)
    for one in sockets:
        one.close()
