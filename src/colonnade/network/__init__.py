"""The network knows other buildings: the hub that carries messages, a party's service that answers it, certificates.

`network/hub.py` runs the coordinator's program and `network/party_service.py` a party's; `network/transport/` moves
bytes between them over mutual TLS. Imports: `views` and below. Start with `network/hub.py`.
"""
