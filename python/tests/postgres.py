"""Debian's PostgreSQL for tests: a server of its own, in a temporary directory, run by a plain user."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile

#: Root is refused by the server: this user of the machine runs it then.
PLAIN = "nobody"


def programs():
    """The directory of the newest PostgreSQL here, or None."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4]))) if found else None


class Postgres:
    """A server on a unix socket, with its data."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="taskvisor-postgres-")
        if os.geteuid() == 0:
            user = pwd.getpwnam(PLAIN)
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        data = os.path.join(self.directory, "data")
        self._run("initdb", "--no-sync", "--auth=trust", "--username=site", "--encoding=UTF8", "--locale=C", data)
        options = f"-c listen_addresses='' -c fsync=off -k {self.directory}"
        self._run("pg_ctl", "-w", "-D", data, "-l", os.path.join(self.directory, "log"), "-o", options, "start")

    def _run(self, program, *arguments):
        command = [os.path.join(programs(), program), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", f"--reuid={PLAIN}", "--regid=nogroup", "--clear-groups", *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.directory, text=True, check=False, env={"PATH": os.environ["PATH"], "HOME": "/"})
        assert done.returncode == 0, f"{command}: {done.stdout}"

    def end(self):
        """Ends the server and removes its data."""
        self._run("pg_ctl", "-w", "-D", os.path.join(self.directory, "data"), "-m", "immediate", "stop")
        shutil.rmtree(self.directory)
