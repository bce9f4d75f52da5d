"""Brokers that do not serve everybody.

One has three listeners, plain, TLS with certificates of clients, and SASL over TLS; keys of its own, in its folder. The other
serves its users alone, and each only what it has rights to.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lab.machine import broker, ports

USER, PASSWORD = "alice", 'hush "hush" \\o/'
OWN = """
listeners=PLAINTEXT://{{host}}:{{port}},SSL://{{host}}:{tls},SASL_SSL://{{host}}:{sasl},CONTROLLER://{{host}}:{{controller}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="builder";
"""


USERS = "owner owner\nengine engine\nana ana-s-word\nbob bob-s-word\n"
AUTHORIZER = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:lab-broker;User:owner;User:ana
"""


@dataclass(frozen=True)
class Secured:
    """The addresses of a broker's listeners, and its folder, with ca.pem, client.pem and client.key."""

    folder: Path
    plain: str
    tls: str
    sasl: str


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Runs one in a folder."""
    folder.mkdir()
    _keys(folder)
    tls, sasl = ports.free_port(), ports.free_port()
    (folder / "own.properties").write_text(OWN.format(tls=tls, sasl=sasl))
    with broker.running_broker(folder) as one:
        admin = AdminClient({"bootstrap.servers": one.address, "log_level": 0})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        said = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())]
        )
        said[USER].result()
        yield Secured(folder, one.address, f"127.0.0.1:{tls}", f"127.0.0.1:{sasl}")


@contextmanager
def broker_of_users(folder: Path) -> Iterator[broker.Broker]:
    """Runs one in a folder, for `USERS`: `owner` and `ana` may do everything."""
    folder.mkdir()
    (folder / "users").write_text(USERS)
    (folder / "users").chmod(0o600)
    broker.restrict_to_users(folder / "broker", broker.read_users(folder / "users"))
    own = folder / "broker" / "own.properties"
    own.write_text(own.read_text() + AUTHORIZER)
    with broker.running_broker(folder / "broker") as one:
        yield one


def _keys(folder: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(
        *new, "-x509", "-days", "2", "-subj", "/CN=lab test authority", "-keyout", "ca.key", "-out", "ca.pem"
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("broker", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        openssl(*signing, "-extfile", "names", "-in", f"{name}.csr", "-out", f"{name}.crt")
    pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pem)
