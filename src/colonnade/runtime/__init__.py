"""The runtime moves what may leave: programs, messages, bytes, nodes that replay, and the engines that drive them.

A program is a generator; a node runs it behind a gate and writes every step down before it sends. The engines here are
one process and Ray; `network` adds other buildings. Imports: `privacy` and below. Start with `runtime/program.py`, then
`runtime/node.py`.
"""
