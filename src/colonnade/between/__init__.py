"""Between organisations: the hub that carries letters (hub.py), a party's office that answers it (office.py)."""
