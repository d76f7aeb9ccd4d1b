# await pool.enqueue_job, await job.result(), _defer_by, _job_id, abort
import asyncio
from taskvisor import agather, job

@job
async def crawl(url):
    await asyncio.sleep(0)
    return len(url)

async def main():
    id = await crawl.aput("https://example.org")  # await pool.enqueue_job("crawl", …)
    assert await id.aresult(timeout=60) == 19
    ids = [await crawl.options(id=f"page-{n}", exists="skip").aput("x" * n) for n in range(5)]
    assert await agather(ids, timeout=60) == [0, 1, 2, 3, 4]
    late = await crawl.options(delay=3600).aput("x")  # _defer_by=3600
    assert await asyncio.to_thread(late.cancel) == "canceled"  # await job.abort()

if __name__ == "__main__":
    asyncio.run(main())
