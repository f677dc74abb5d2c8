"""The network between organisations: gRPC streams with mutual TLS, bytes in and bytes out.

The hub runs a `Switchboard`, every party calls `serve`. Parties dial out, so only the hub needs a port. Where parties
chose to open one, `Lines` connects them with each other, over TLS without gRPC. What travels is bytes; who may learn
them was decided before, at each party's gate. Logs and metrics carry counts, sizes, fixed words and the names of
members, never content.

    hub     hub       Switchboard: proves who dials, numbers requests, sends them again until they are answered
    party   party     serve: proves that it is the hub, answers one by one, dials again
    direct  direct    Lines: between two parties, where one of them opened a port
    bytes   envelope  envelopes, chunks, greetings, and how long either end waits for the other
    page    metrics   counters, and /metrics, /health and /ready on the loopback interface
"""
