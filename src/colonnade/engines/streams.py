"""The network between organisations: gRPC streams with mutual TLS, bytes in and bytes out.

The hub runs a `Switchboard`, every party calls `serve`. Parties dial out, so only the hub needs a port. Where parties chose
to open one, `Lines` connects them with each other, over TLS without gRPC. What travels is bytes; who may learn them was decided before, at each party's gate. Logs and metrics carry counts, sizes, fixed words and
the names of members, never content.

    hub     streams_hub       Switchboard: proves who dials, numbers requests, sends them again until they are answered
    party   streams_party     serve: proves that it is the hub, answers one by one, dials again
    direct  streams_direct    Lines: between two parties, where one of them opened a port
    bytes   streams_envelope  envelopes, chunks, compression, greetings
    time    streams_clock     deadlines, and how long either end waits for the other
    page    streams_metrics   counters, and /metrics, /health and /ready on the loopback interface
"""

from __future__ import annotations

from colonnade.certs import Tls
from colonnade.engines.streams_envelope import HubRefused, PartyRestarted, PeerTimeout
from colonnade.engines.streams_hub import Switchboard
from colonnade.engines.streams_metrics import Metrics, page
from colonnade.engines.streams_party import serve

__all__ = ["HubRefused", "Metrics", "PartyRestarted", "PeerTimeout", "Switchboard", "Tls", "page", "serve"]
