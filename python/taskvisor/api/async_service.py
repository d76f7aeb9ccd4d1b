"""The routes for the supervisor itself, and for tasks of QuantumLeap. Made of `service` by the tests."""

from __future__ import annotations

from .base import AsyncAsking, given, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, Optional, Union

    from . import answers


class AsyncService(AsyncAsking):
    """Looks at the supervisor and its pools, and orders them about."""

    async def status(self) -> answers.Status:
        """All of it: workers, what they run, queues, and what is wrong."""
        found: answers.Status = await self._ask("GET", path("status"))
        return found

    async def version(self) -> str:
        """The version of the supervisor."""
        found: answers.Version = await self._ask("GET", "/version")
        return found["version"]

    async def broker(self) -> Optional[str]:
        """Where the jobs are, without secrets; answered at once."""
        found: answers.Here = await self._ask("GET", "/v1")
        return found.get("broker")

    async def live(self) -> bool:
        """Whether it answers at all: False only while it says that it does not live."""
        return await self._is_good("/livez")

    async def ready(self) -> bool:
        """Whether it takes and runs jobs."""
        return await self._is_good("/readyz")

    async def metrics(self) -> str:
        """The metrics for Prometheus."""
        return await self._text("/metrics")

    async def config(self) -> answers.ConfigShown:
        """The settings in force, each with its source, without secrets."""
        found: answers.ConfigShown = await self._ask("GET", path("config"))
        return found

    async def doctor(self) -> answers.Diagnosis:
        """What the machine of the supervisor lacks; takes up to 10 s."""
        found: answers.Diagnosis = await self._ask("GET", path("doctor"))
        return found

    async def series(self, *, queue: Optional[str] = None, class_name: Optional[str] = None,
                     each: Optional[Literal["queue", "class"]] = None, step: Literal["10s", "1m"] = "10s",
                     since: Union[str, int, None] = None) -> answers.TimeSeries:
        """What happened to jobs in each step of the last hour, or with `step` 1m of the last day: of all of them, of those
        of a queue or a class, or of each queue or class."""
        route = path("series", queue=queue, class_=class_name, each=each, step=step, since=since)
        found: answers.TimeSeries = await self._ask("GET", route)
        return found

    async def openapi(self) -> dict[str, Any]:
        """The description of the API."""
        found: dict[str, Any] = await self._ask("GET", "/v1/openapi.json")
        return found

    async def fleet(self, *, jobs: bool = False) -> answers.Fleet:
        """All supervisors that share a Redis; with `jobs` what they run."""
        found: answers.Fleet = await self._ask("GET", path("fleet", jobs=jobs or None))
        return found

    async def why_slot(self, slot: str) -> answers.Why:
        """What a slot, as ``mail.1``, does or waits for."""
        found: answers.Why = await self._ask("GET", path("why", "slot", slot))
        return found

    async def why_pool(self, pool: str) -> answers.Why:
        """What a pool does or waits for."""
        found: answers.Why = await self._ask("GET", path("why", "pool", pool))
        return found

    async def reload(self, *, dry_run: bool = False) -> answers.Reloaded:
        """Has it read its settings again; with `dry_run` it only says what would change."""
        found: answers.Reloaded = await self._ask("POST", path("reload"), given(dry_run=dry_run or None))
        return found

    async def recycle(self, pool: Optional[str] = None) -> list[answers.PoolNow]:
        """Replaces the workers of a pool, or of all, as their jobs end."""
        return await self._of_pools(pool, "recycle", None, again=False)

    async def pause(self, pool: Optional[str] = None, *, reason: Optional[str] = None,
                    until_stop: bool = False) -> list[answers.PoolNow]:
        """Has a pool, or all, take no jobs until it is resumed; with `until_stop` a stop ends the pause."""
        return await self._of_pools(pool, "pause", given(reason=reason, until_stop=until_stop or None))

    async def resume(self, pool: Optional[str] = None) -> list[answers.PoolNow]:
        """Ends the pause of a pool, or of all."""
        return await self._of_pools(pool, "resume", None)

    async def scale(self, pool: str, *, to: Optional[int] = None, by: Optional[int] = None) -> answers.PoolNow:
        """Gives a pool so many workers, or so many more or less."""
        if (to is None) == (by is None):
            raise ValueError("scale takes to= or by=, and not both")
        return (await self._of_pools(pool, "scale", given(to=to, by=by), again=by is None))[0]

    async def at_rest(self) -> None:
        """Waits until no job runs."""
        await self._ask("GET", path("at-rest"))

    async def stop(self, how: Literal["drain", "terminate", "kill"] = "drain") -> None:
        """Ends the supervisor; returns at once, the stop has begun then.

        It is asked once: after a lost answer the next supervisor may listen there already.
        """
        await self._ask("POST", path("stop"), {"how": how}, again=False, of_this=True)

    async def notify(self, notification: Mapping[str, Any], headers: Optional[Mapping[str, str]] = None) -> answers.Taken:
        """Takes in a notification as QuantumLeap does, with its headers: `fiware-service` and so on."""
        found: answers.Taken = await self._ask("POST", path("tasks", "notify"), notification, again=False, headers=headers)
        return found

    async def tasks(self, tenant: str, *, service_path: Optional[str] = None, correlator: Optional[str] = None,
                    status: Optional[Literal["pending", "succeeded", "failed"]] = None) -> list[answers.Task]:
        """The tasks of a tenant."""
        route = path("tasks", tenant=tenant, service_path=service_path, correlator=correlator, status=status)
        found: list[answers.Task] = await self._ask("GET", route)
        return found

    async def tasks_summary(self, tenant: str, *, service_path: Optional[str] = None, correlator: Optional[str] = None,
                            status: Optional[Literal["pending", "succeeded", "failed"]] = None) -> list[answers.TaskRuntime]:
        """What has become of the tasks of a tenant."""
        route = path("tasks", "summary", tenant=tenant, service_path=service_path, correlator=correlator, status=status)
        found: list[answers.TaskRuntime] = await self._ask("GET", route)
        return found

    async def tasks_count(self, tenant: Optional[str] = None, *, service_path: Optional[str] = None,
                          correlator: Optional[str] = None,
                          status: Optional[Literal["pending", "succeeded", "failed"]] = None) -> int:
        """How many tasks a tenant has; without one, how many jobs their queue has."""
        route = path("tasks", "count", tenant=tenant, service_path=service_path, correlator=correlator, status=status)
        found: answers.Number = await self._ask("GET", route)
        return found["count"]

    async def remove_tasks(self, tenant: str, *, service_path: Optional[str] = None, correlator: Optional[str] = None) -> int:
        """Ends and removes the tasks of a tenant; returns how many."""
        order = given(tenant=tenant, service_path=service_path, correlator=correlator)
        found: answers.Number = await self._ask("POST", path("tasks", "remove"), order)
        return found["count"]

    async def _of_pools(self, pool: Optional[str], what: str, order: Optional[dict[str, Any]],
                        again: bool = True) -> list[answers.PoolNow]:
        route = path(what) if pool is None else path("pools", pool, what)
        found: answers.PoolsNow = await self._ask("POST", route, order, again=again)
        return found.get("pools", [])
