"""Attacks on whole methods: what an adversary does with the messages it sees, one file a method; `colonnade.audit` lists them."""
