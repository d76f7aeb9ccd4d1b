# await in a handler; the client of one supervisor for the life of the application
import contextlib
from fastapi import FastAPI, HTTPException
from taskvisor import AsyncClient, NoSuchJob, job

@job(queue="reports")
def report(month: int) -> int:
    return month * 100

@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.jobs = AsyncClient()
    yield

app = FastAPI(lifespan=lifespan)

@app.post("/reports/{month}", status_code=202)
async def begin(month: int):
    return {"job": await report.options(client=app.state.jobs).aput(month)}

@app.get("/reports/{id}")
async def look(id: str, wait: float = 30):
    try:
        return {"sum": await app.state.jobs.id(id).aresult(timeout=wait)}
    except NoSuchJob:
        raise HTTPException(404) from None

if __name__ == "__main__":
    from fastapi.testclient import TestClient
    with TestClient(app) as web:
        id = web.post("/reports/7").json()["job"]
        assert web.get(f"/reports/{id}").json() == {"sum": 700}
        assert web.get("/reports/nobody").status_code == 404
