"""The lines between worker and supervisor (docs/worker-protocol.md): how to write and read them as bytes.

Nothing here reads or writes a descriptor, and nothing here knows of jobs, modes or processes.
"""
