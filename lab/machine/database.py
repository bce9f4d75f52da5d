"""A real PostgreSQL without Docker, where its programs are installed: on this machine's loopback only, in a folder of its own.

    data/        what `initdb` made, with our settings; kept by later starts
    passwords/   a file for each of the database's users, drawn at random, readable by the owner of the folder only

The server keeps running when the process that started it ends. It refuses to run as root: started by root, it runs as
`postgres` or `nobody`. Four users: `lab` owns the database and creates its tables, `capture` reads changes and writes answers,
`analyst` edits rules, `reader` only reads them.
"""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from lab.logs.access import file_lock
from lab.logs.loopback import check_loopback
from lab.machine import jars, ports

HOST, PORT = ports.HOST, 5433  # 5432 is what a PostgreSQL of the system's own takes
OWNER, CAPTURE, ANALYST, READER = "lab", "capture", "analyst", "reader"
ROLES = {CAPTURE: "REPLICATION", ANALYST: "", READER: ""}  # and what a role has beside its rights to tables
NAME = "lab"  # of the database
PASSWORDS = "passwords"  # the folder with their files
START_S, STOP_S = 60, 30
PROGRAMS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
OLDEST = 15
NOT_HERE = f"PostgreSQL {OLDEST} or newer is not on this machine"
HOW_TO_GET_IT = (
    "`apt-get install postgresql` (or `brew install postgresql`); "
    "without it, rules can be kept in a file: --store sqlite:///rules.db"
)
SETTINGS = f"""\
listen_addresses = '{HOST}'
unix_socket_directories = ''
wal_level = logical
max_replication_slots = 100
max_slot_wal_keep_size = 1GB        # a capture that never comes back does not fill the disk
password_encryption = scram-sha-256
shared_buffers = 64MB
timezone = UTC
log_timezone = UTC
"""


# who may replicate reads one database's changes, and copies no data folder: there is no line for `replication`
ACCESS = f"host all all {HOST}/32 scram-sha-256\n"


class DatabaseError(RuntimeError):
    """The database did not start or is not running; the message gives the reason and a remedy."""


@dataclass(frozen=True)
class Database:
    """A database that was started: its folder, port and process.

    >>> Database(Path("/tmp/db"), 5433, 4711).url(READER)
    'postgresql://reader@127.0.0.1:5433/lab?passfile=/tmp/db/passwords/reader'
    """

    folder: Path
    port: int
    pid: int

    def url(self, user: str = OWNER) -> str:
        """The URL for `psql` and `lab`; it names the file that holds the password."""
        return f"postgresql://{user}@{HOST}:{self.port}/{NAME}?passfile={quote(str(self.folder / PASSWORDS / user))}"

    @property
    def is_alive(self) -> bool:
        """Whether the process is there and is this database."""
        return status(self.folder) == self

    def stop(self) -> None:
        """Shuts the database down; open connections are closed."""
        _run("pg_ctl", self.folder, "stop", "--mode=fast", f"--timeout={STOP_S}")

    def kill(self) -> None:
        """Kills all its processes with SIGKILL, like a power cut; committed data survive."""
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.pid)
            processes = [server, *server.children()]
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, STOP_S)

    def restart(self) -> "Database":
        """Stops the database if it is running, and starts it on the same port with the same data."""
        if self.is_alive:
            self.stop()
        return start(self.folder, self.port)


def default_folder() -> Path:
    """Where the database is when nobody says otherwise: beside the broker; of root, where its other user may go."""
    return Path("/var/lib/lab-db") if os.geteuid() == 0 else jars.user_folder() / "db"


def programs_folder() -> Path:
    """The folder of the newest PostgreSQL's programs. Raises DatabaseError."""
    found = [path for pattern in PROGRAMS for path in Path("/").glob(pattern[1:])]
    if on_path := shutil.which("pg_ctl"):
        found.append(Path(on_path).resolve().parent)
    versions = [(number, path) for path in found if (number := programs_version(path)) >= OLDEST]
    if not versions:
        raise DatabaseError(f"{NOT_HERE}: {HOW_TO_GET_IT}")
    return max(versions)[1]


def programs_version(folder: Path) -> int:
    """The major version of PostgreSQL's programs in a folder, such as 17; 0 if some are missing."""
    if not all((folder / name).is_file() for name in ("initdb", "pg_ctl", "postgres")):
        return 0
    said = subprocess.run(
        [folder / "postgres", "--version"], check=False, capture_output=True, text=True
    ).stdout
    number = said.split()[2].split(".")[0] if len(said.split()) > 2 else ""
    return int(number) if number.isdecimal() else 0


def start(folder: Path | str | None = None, port: int = PORT) -> Database:
    """Starts the folder's database unless it runs already; returns it once it answers, after about a second.

    `port` 0 takes a free one. Raises DatabaseError, NoLoopback.
    """
    folder = _resolved(folder)
    programs_folder()
    check_loopback()
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / "start.lock"):
        if running := status(folder):
            if port in (0, running.port):
                return running
            raise DatabaseError(
                f"the database of {folder} runs on port {running.port}, which is not {port}: stop it first"
            )
        port = port or ports.free_port()
        if not ports.is_free(port):
            raise DatabaseError(
                f"port {port} of {HOST} is taken: stop what listens there, or take another port"
            )
        _may_enter(folder)
        if not (folder / "data" / "PG_VERSION").exists():
            _initialise(folder)
        (folder / "data" / "postgresql.conf").write_text(f"{SETTINGS}port = {port}\n")
        (folder / "data" / "pg_hba.conf").write_text(ACCESS)
        log = folder / "data" / "server.log"
        _run("pg_ctl", folder, "start", "--wait", f"--timeout={START_S}", f"--log={log}")
        if not (started := status(folder)):
            raise DatabaseError(f"PostgreSQL ended as soon as it had started, see {log}")
        _create_users(started)
        return started


def status(folder: Path | str | None = None) -> Database | None:
    """The folder's database if its process runs."""
    folder = _resolved(folder)
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
        pid, port = int(lines[0]), int(lines[3])
        if str(folder / "data") in psutil.Process(pid).cmdline():
            return Database(folder, port, pid)
    return None


def database_on_port(port: int) -> Database | None:
    """The default folder's database, if it runs on this port."""
    found = status()
    return found if found and found.port == port else None


# -- how it is done ----------------------------------------------------------------------------------------------------


def _resolved(folder: Path | str | None) -> Path:
    return Path(folder or default_folder()).expanduser().resolve()


def _server_user() -> pwd.struct_passwd | None:
    """The user that runs the server if we are root; None means the current user."""
    if os.geteuid():
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users["nobody"]


def _may_enter(folder: Path) -> None:
    if not (user := _server_user()):
        return
    if closed := [path for path in (folder, *folder.parents) if not path.stat().st_mode & 0o001]:
        raise DatabaseError(
            f"PostgreSQL does not run as root, and {user.pw_name} may not enter {closed[-1]}: "
            f"take another folder, such as {default_folder()}, or start it as another user"
        )


def _run(program: str, folder: Path, *arguments: str, data: str = "data") -> None:
    """Runs one of PostgreSQL's programs on the folder's data. Raises DatabaseError with what it said."""
    user = _server_user()
    as_user: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryFile() as output:  # not a pipe: the server keeps it open
        command = [str(programs_folder() / program), f"--pgdata={folder / data}", *arguments]
        files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        done = subprocess.run(command, check=False, cwd=folder, **files, **as_user)
        if done.returncode:
            output.seek(0)
            said = output.read().decode(errors="replace").strip().splitlines()
            log = folder / "data" / "server.log"
            logged = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
            raise DatabaseError("\n".join([f"{program} failed on {folder}:", *said[-3:], *logged]))


def _initialise(folder: Path) -> None:
    """Makes the data folder, and the owner's password. The data are another user's if we are root, the password is ours.

    The folder gets its name at the end: without the password, a start that was interrupted would have made a database for nobody.
    """
    user, data, word = _server_user(), folder / "data.new", secrets.token_urlsafe(24)
    for interrupted in (data, folder / "data"):
        shutil.rmtree(interrupted, ignore_errors=True)
    data.mkdir(mode=0o700)
    first = folder / "first-password"
    _write_secret(first, word)
    if user:
        for path in (data, first):
            os.chown(path, user.pw_uid, user.pw_gid)
    try:
        encoding = ("--encoding=UTF8", "--locale=C", "--no-instructions")
        owner = (f"--username={OWNER}", "--auth=scram-sha-256", f"--pwfile={first}")
        _run("initdb", folder, *owner, *encoding, data=data.name)
    finally:
        first.unlink()
    (folder / PASSWORDS).mkdir(mode=0o700, exist_ok=True)
    _write_secret(folder / PASSWORDS / OWNER, _passfile(OWNER, word))
    data.rename(folder / "data")


def _passfile(user: str, word: str) -> str:
    return f"*:*:*:{user}:{word}\n"


def _write_secret(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _create_users(database: Database) -> None:
    """Makes the database and its users, unless they are there."""
    import psycopg2
    from psycopg2 import sql

    url = database.url().replace(f"/{NAME}?", "/postgres?")
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,))
            if not cursor.fetchone():
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
    create_roles(url, database.folder / PASSWORDS)


def create_roles(url: str, passwords: Path) -> list[str]:
    """Makes the users that do not own a server's tables, each with a password at random in a file of the folder.

    `url`: of a user who may make users. Returns the names of the users it created.
    """
    import psycopg2
    from psycopg2 import sql

    passwords.mkdir(mode=0o700, exist_ok=True)
    made = []
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        for name, more in ROLES.items():
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
            if not cursor.fetchone():
                word = secrets.token_urlsafe(24)
                _write_secret(passwords / name, _passfile(name, word))
                create = sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}")
                rights = sql.SQL(more)
                cursor.execute(create.format(sql.Identifier(name), rights, sql.Literal(word)))
                made.append(name)
    return made
