"""The process that runs jobs: what ``python3 -m taskvisor.worker`` starts, in each of the three modes.

`start` begins; `prefork`, `coroutine` and `template` are the loops of the modes. An application never imports from here.
"""
