"""lab.toml: what it may say, what it becomes for each client, and that it never tells a secret."""

import os
from pathlib import Path

import pytest

from lab.cli.main import USAGE, main
from lab.logs.access import NotTrusted, read_trusted
from lab.logs.cluster import Cluster
from lab.logs.config import BadConfig, Config, load_config, read_config
from lab.logs.places import split_kafka_place
from lab.running.target import locate, target_of_existing_logs

SECRET = 's3"cret\\word'
SASL = """
[kafka]
bootstrap = ["b1.example.com:9093", "b2.example.com:9093"]
group = "fraud"
replication = 3
retention = "14d"
topics = { events = "shop.orders.v1", deadLetters = "shop.bad" }

[kafka.client]
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "${KAFKA_USER}"
sasl.password = { file = "password" }
ssl.ca.location = "ca.pem"
ssl.endpoint.identification.algorithm = "none"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "password").write_text(SECRET + "\n")
    (tmp_path / "password").chmod(0o600)
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "ca.pem").chmod(0o600)
    (tmp_path / "lab.toml").write_text(SASL)
    monkeypatch.setenv("KAFKA_USER", "alice")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_another(path, monkeypatch):
    """Has a file look like one of another user, also where the tests do not run as root."""
    if os.getuid() == 0:
        os.chown(path, 60_005, 60_005)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 60_005)


def test_a_file_of_another_user_is_not_obeyed_and_the_message_says_whose_it_is(folder, monkeypatch, capsys):
    of_another(folder / "lab.toml", monkeypatch)
    for command in (["rules", "list"], ["rules", "list", "--config", "lab.toml"]):
        assert main(command) == USAGE
        said = capsys.readouterr().err
        assert f"{folder / 'lab.toml'}: belongs to user" in said and "cp" in said, said
    with pytest.raises(BadConfig, match="belongs to user"):
        target_of_existing_logs("kafka:///")


def test_a_file_that_everybody_may_change_is_not_obeyed(folder):
    (folder / "lab.toml").chmod(0o666)
    with pytest.raises(BadConfig, match=r"everybody may change it: chmod o-w "):
        load_config(None)


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (
            '[kafka.client]\nsecurity.protocol = "SASL_SSL"\nsasl.password = "hush"',
            "kafka.client.sasl.password",
        ),
        ('[notify.x]\nurl = "https://e.com"\nsecret = "hush"', "notify.x.secret"),
        ('[notify.x]\nurl = "https://ann:hush@e.com"\nsecret = "${TOKEN}"', "notify.x.url"),
        ('[notify.x]\nurl = "slack://hush/hush/hush"', "notify.x.url"),
        ('[notify.x]\nurl = "${URL}"\nproxy = "http://ann:hush@e.com"', "notify.x.proxy"),
    ],
)
def test_a_file_with_a_secret_that_everybody_may_read_is_not_obeyed(folder, secret, shown):
    (folder / "lab.toml").write_text(secret)
    (folder / "lab.toml").chmod(0o644)
    with pytest.raises(BadConfig, match=f"everybody may read it, and it has {shown}: chmod o-r ") as error:
        load_config(None)
    assert "hush" not in str(error.value)
    (folder / "lab.toml").write_text(SASL)
    (folder / "lab.toml").chmod(0o644)
    assert load_config(None).kafka, "it names files and variables"
    (folder / "password").chmod(0o644)
    with pytest.raises(
        BadConfig, match="password: has a secret, and everybody may read it: chmod o-r "
    ) as error:
        load_config(None)
    assert SECRET not in str(error.value)


def test_a_container_s_secret_belongs_to_root_and_may_be_read_by_all(folder, monkeypatch):
    if os.getuid() != 0:
        pytest.skip("only root can give a file to root")
    (folder / "password").chmod(0o444)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert read_trusted(folder / "password", is_secret=True).strip() == SECRET


def test_nobody_waits_for_a_pipe_that_somebody_else_made(folder, monkeypatch):
    (folder / "lab.toml").unlink()
    os.mkfifo(folder / "lab.toml")
    of_another(folder / "lab.toml", monkeypatch)
    with pytest.raises(NotTrusted, match="belongs to user"):
        read_trusted(folder / "lab.toml")


def test_a_password_may_come_by_a_pipe_of_one_s_own(folder):
    os.mkfifo(folder / "pipe")
    with open(os.open(folder / "pipe", os.O_RDWR), "w") as pipe:
        pipe.write("hush")
        pipe.flush()
        reader = os.open(folder / "pipe", os.O_RDONLY)
    try:
        assert read_trusted(Path(f"/dev/fd/{reader}")) == "hush"
    finally:
        os.close(reader)


def test_a_link_that_somebody_else_made_is_not_followed(folder, monkeypatch):
    (folder / "real.toml").write_text((folder / "lab.toml").read_text())
    (folder / "lab.toml").unlink()
    (folder / "lab.toml").symlink_to("real.toml")
    assert load_config(None).kafka
    if os.getuid() == 0:
        os.lchown(folder / "lab.toml", 60_005, 60_005)
        with pytest.raises(BadConfig, match="belongs to user"):
            load_config(None)


@pytest.mark.parametrize("name", ["password", "ca.pem"])
def test_a_password_or_certificate_of_another_user_is_refused_and_not_shown(folder, name, monkeypatch):
    (folder / name).chmod(0o666)
    with pytest.raises(BadConfig, match=f"{name}: everybody may change it") as error:
        load_config(None)
    assert SECRET not in str(error.value)
    if os.getuid() == 0:
        (folder / name).chmod(0o600)
        os.chown(folder / name, 60_005, 60_005)
        with pytest.raises(BadConfig, match=f"{name}: belongs to user"):
            load_config(None)


def test_the_file_that_was_found_is_named_once(folder, capsys):
    load_config(None), load_config(None), load_config(folder / "lab.toml")
    assert capsys.readouterr().err == f"lab: the cluster is that of {folder / 'lab.toml'}\n"


def test_each_log_that_expires_may_have_a_retention_of_its_own(folder):
    of_all, each = 'retention = "14d"', 'retention = { stats = "1d", alerts = "90d" }'
    (folder / "lab.toml").write_text(SASL.replace(of_all, each))
    cluster = load_config(None).kafka
    days = [cluster.retention_ms_of(log) / 86_400_000 for log in ("stats", "alerts", "deadLetters")]
    assert days == [1, 90, 7]
    (folder / "lab.toml").write_text(SASL)
    assert load_config(None).kafka.retention_ms_of("stats") == 14 * 86_400_000
    for wrong, said in (
        ('{ control = "1d" }', "kafka.retention.control is not known"),
        ('{ stats = "x" }', "'x', expected"),
    ):
        (folder / "lab.toml").write_text(SASL.replace(of_all, f"retention = {wrong}"))
        with pytest.raises(BadConfig, match=said):
            load_config(None)


def test_a_prefix_names_all_topics_that_have_no_name_of_their_own(folder):
    (folder / "lab.toml").write_text(SASL.replace('group = "fraud"', 'prefix = "fraud."'))
    logs = locate().logs
    names = [logs.topic(log) for log in ("events", "deadLetters", "alerts", "shadow", "restrictions")]
    assert names == ["shop.orders.v1", "shop.bad", "fraud.alerts", "fraud.shadow", "fraud.restrictions"]


def test_every_client_gets_the_same_in_its_own_spelling(folder):
    cluster = load_config(None).kafka
    assert (cluster.replication, cluster.retention_ms, cluster.consumer_group) == (
        3,
        14 * 86_400_000,
        "fraud",
    )
    assert cluster.librdkafka_properties == {
        "bootstrap.servers": "b1.example.com:9093,b2.example.com:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": SECRET,
        "ssl.ca.pem": "-----BEGIN CERTIFICATE-----\n",
        "ssl.endpoint.identification.algorithm": "none",
    }
    java = cluster.java_properties
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="s3\\"cret\\\\word";'
    )
    assert (java["ssl.truststore.type"], java["ssl.endpoint.identification.algorithm"]) == ("PEM", "")
    assert "ssl.keystore.type" not in java and not {"sasl.username", "sasl.password"} & java.keys()


def test_a_cluster_and_its_logs_never_show_a_secret(folder):
    from lab.engine.loop.kafkalogs import KafkaLogs

    config = load_config(None)
    logs = KafkaLogs(config.kafka, config.topics)
    assert SECRET not in repr((config, logs, logs.log("events"))) and "alice" not in repr(config)
    assert repr(logs.log("events")) == "kafka://b1.example.com:9093,b2.example.com:9093/shop.orders.v1"


def test_its_properties_go_to_its_own_brokers_only(folder):
    config = load_config(None)
    assert config.cluster("") == config.cluster("b2.example.com:9093") == config.kafka
    assert config.cluster("elsewhere:9093") == Cluster("elsewhere:9093")
    with pytest.raises(
        BadConfig, match="expected one in this folder with .kafka. bootstrap, or --config FILE"
    ):
        Config().cluster("")


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("[kafka]", "[kafka", "other.toml: not TOML: "),
        ('group = "fraud"', "grup = 1", "kafka.grup is not known, expected kafka.bootstrap, kafka.topics, "),
        ("deadLetters", "letters", "kafka.topics.letters is not known, expected kafka.topics.events, "),
        ("b1.example.com:9093", "b1.example.com", "'b1.example.com', expected HOST:PORT of a broker"),
        ("b1.example.com", "alice:top@b1", "an address with credentials in it, .* in lab.toml"),
        ("sasl.password", "sasl.pasword", "kafka.client.sasl.pasword is not known, expected one of client.id, "),
        ("${KAFKA_USER}", "${NOBODY}", "kafka.client.sasl.username: the environment has no NOBODY"),
        ('"password" }', '"passwort" }', "kafka.client.sasl.password: .*passwort: No such file or directory"),
        ('{ file = "password" }', "7", "kafka.client.sasl.password: expected a text, which may have"),
        ("SCRAM-SHA-512", "GSSAPI", "kafka.client.sasl.mechanism: expected one of PLAIN, SCRAM-SHA-256, "),
        ("SASL_SSL", "SASL_PLAINTEXT", "kafka.client.ssl.ca.location is of no use with security.protocol SASL_PLAINTEXT"),
        ("SASL_SSL", "TLS", "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ('sasl.username = "${KAFKA_USER}"', "", "kafka.client.sasl.username is missing, SASL_SSL needs it"),
        ("ssl.ca.location", "ssl.key.location", "ssl.certificate.location and ssl.key.location: expected both"),
        ("replication = 3", 'replication = "3"', "kafka.replication: '3', expected a whole number"),
        ('"14d"', '"fortnight"', "'fortnight', expected a whole number and ms, s, min, h or d"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(before, after, said, folder):
    assert before in SASL
    (folder / "other.toml").write_text(SASL.replace(before, after))
    with pytest.raises(BadConfig, match=said) as error:
        read_config(folder / "other.toml")
    assert SECRET not in str(error.value) and "top@" not in str(error.value)


def test_credentials_in_an_address_are_refused_and_not_shown(capsys):
    for where in ("kafka://alice:hush@b1:9093/events", "kafka://b1:9093/alice:hush@x"):
        with pytest.raises(SystemExit):
            main(["run", "--logs", where])
        with pytest.raises(ValueError, match="lab.toml, see docs/kafka.md"):
            split_kafka_place(where)
        assert main(["simulate", "payments", "--to", where]) == USAGE
        said = capsys.readouterr()
        assert "lab.toml" in said.err and "hush" not in said.err + said.out


def test_a_place_may_name_several_brokers_or_leave_them_to_the_file():
    assert split_kafka_place("kafka://b1:9093,b2:9093/x") == ("b1:9093,b2:9093", "x")
    assert split_kafka_place("kafka:///x") == ("", "x")
