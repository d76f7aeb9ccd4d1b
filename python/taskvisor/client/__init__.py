"""The part for applications: `@job` (`decorator`), `put` (`putting`), the running job (`running_job`), `Advance`.

Import these names from `taskvisor`. Nothing here knows how a worker runs jobs, and nothing here imports `worker` or `qless`.
"""
