"""The lines between worker and supervisor (docs/worker-protocol.md): how they are written and read as bytes.

Nothing here reads or writes a descriptor, and nothing here knows of jobs, modes or processes.
"""
