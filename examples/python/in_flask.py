# an application context around each job
import functools
from flask import Flask, current_app, jsonify
from taskvisor import job

app = Flask(__name__)
app.config["SENDER"] = "us@example.org"

def in_app(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        with app.app_context():
            return function(*args, **kwargs)
    return run

@job(queue="mail")
@in_app
def welcome(to):
    return f"{current_app.config['SENDER']} to {to}"

@app.post("/users/<to>")
def sign_up(to):
    return jsonify(job=welcome.put(to)), 202

if __name__ == "__main__":
    from taskvisor import JobId
    answer = app.test_client().post("/users/ann")
    assert JobId(answer.json["job"]).result(timeout=60) == "us@example.org to ann"
