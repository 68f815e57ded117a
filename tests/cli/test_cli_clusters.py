"""Clusters: nobody without the certificates gets a word in."""

import argparse
import contextlib
import socket
import ssl
import threading
import time

import numpy as np
import pytest

from gemmed._core.exceptions import WorkerDiedError
from gemmed.cli import main, streaming
from gemmed.cli.streaming import cluster

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours
LOCAL = argparse.Namespace(scheduler="local", workers=1, tls_ca=None, tls_cert=None, tls_key=None)


def listening_ports():
    """Ports that this process and its children listen at."""
    me = psutil.Process()
    return {
        connection.laddr.port
        for process in [me, *me.children(recursive=True)]
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }


def answer_to(port, words, *, encrypted):
    """What comes back from a stranger's connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as plain:
        try:
            if not encrypted:
                plain.sendall(words)
                return plain.recv(200)
            # Without a certificate of its own.
            with ssl._create_unverified_context().wrap_socket(plain) as connection:
                connection.sendall(words)
                return connection.recv(200)
        except OSError:  # refused, or nothing said
            return b""


def test_an_open_cluster_would_be_noticed():
    """Without TLS a worker introduces itself to everybody."""
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0", protocol="tcp://"
    ) as made:
        port = int(made.scheduler_address.rpartition(":")[2])
        assert answer_to(port, b"\0" * 64, encrypted=False) != b""


def test_a_cluster_made_here_accepts_its_own_processes_only():
    before = listening_ports()
    with cluster(LOCAL) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        addresses = [client.scheduler.address, *client.nthreads()]
        assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
        ports = listening_ports() - before
        assert {int(address.rpartition(":")[2]) for address in addresses} <= ports
        pages = set()
        for port in ports:
            plain = answer_to(port, b"GET /status HTTP/1.0\r\n\r\n", encrypted=False)
            assert plain == b"" or plain.startswith(b"HTTP/1.1 404 Not Found"), plain
            assert answer_to(port, b"\0" * 64, encrypted=True) == b""
            pages |= {port} if plain else set()
        # No page of a dashboard, no metrics: a server of HTTP that has nothing to show.
        for page in (b"/info/main/workers.html", b"/metrics", b"/json/counts.json", b"/api/v1"):
            for port in pages:
                answer = answer_to(port, b"GET " + page + b" HTTP/1.0\r\n\r\n", encrypted=False)
                assert answer.startswith(b"HTTP/1.1 404 Not Found")


@pytest.fixture
def certificates(tmp_path):
    """Options for the certificates of a cluster, and its security."""
    security = distributed.Security.temporary()
    files = {"ca": security.tls_ca_file, "cert": security.tls_client_cert}
    files["key"] = security.tls_client_key
    options = []
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        options += [f"--tls-{name}", str(tmp_path / name)]
    return security, options


def test_a_scheduler_with_certificates(certificates, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gemmed.cli.streaming.ANSWER_SECONDS", 4)
    X = np.random.default_rng(0).normal(size=(300, 2))
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] > 0).astype(int))
    table.to_parquet(tmp_path / "t.parquet")
    security, options = certificates
    with distributed.LocalCluster(
        n_workers=1, processes=False, security=security, dashboard_address="127.0.0.1:0"
    ) as made:
        address = made.scheduler_address
        assert address.startswith("tls://")
        fit = ["fit", str(tmp_path / "t.parquet"), "--target", "y", "--components", "20"]
        fit += ["--gamma", "0.3", "--out", str(tmp_path / "m"), "--scheduler"]
        assert main([*fit, address, *options]) == 0
        assert "workers at tls://" in capsys.readouterr().err
        for name in ("ca", "cert", "key"):  # a stranger's
            (tmp_path / name).write_text(
                getattr(distributed.Security.temporary(), f"tls_{name}_file", "") or "none"
            )
        assert main([*fit, address, *options]) == 2
        assert capsys.readouterr().err.startswith("gemmed: error: --scheduler 'tls://")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--scheduler", "tcp://127.0.0.1:9", "--tls-ca", "x"],
            "--tls-ca goes with --sch",
        ),
        (["--scheduler", "local", "--tls-key", "x"], "--tls-key goes with --scheduler tls://"),
        (["--scheduler", "tls://127.0.0.1:9", "--tls-ca", "x"], "needs all of --tls-ca"),
        (
            ["--scheduler", "tls://h:9", "--tls-ca", "x", "--tls-cert", "x", "--tls-key", "x"],
            "--tls-ca 'x' is not a file",
        ),
    ],
)
def test_options_that_contradict_each_other(options, message, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    out = str(tmp_path / "m")
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--out", out, *options]) == 2
    assert message in capsys.readouterr().err


# -- servers that are no schedulers, workers that die ------------------------------------------


def talk_nothing(connection):
    while connection.recv(1000):
        pass


def talk_back(connection):
    while words := connection.recv(1000):
        connection.sendall(words)


def talk_http(connection):
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def talk_ssh(connection):
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    talk_nothing(connection)


def hang_up(connection):
    connection.close()


@pytest.fixture
def server():
    """Start a server that talks to every connection in a given way; returns its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve(talk):
        def converse(connection):
            with contextlib.suppress(OSError):
                talk(connection)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connections.append(listening.accept()[0])
                    threading.Thread(target=converse, args=connections[-1:], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return listening.getsockname()[1]

    yield serve
    listening.shutdown(socket.SHUT_RDWR)
    for one in [listening, *connections]:
        one.close()


@pytest.mark.parametrize("talk", [talk_nothing, talk_back, talk_http, talk_ssh, hang_up])
def test_a_server_that_is_no_scheduler_is_named(talk, server, monkeypatch):
    monkeypatch.setattr(streaming, "ANSWER_SECONDS", 1)
    options = argparse.Namespace(**{**vars(LOCAL), "scheduler": f"tcp://127.0.0.1:{server(talk)}"})
    begin = time.perf_counter()
    with pytest.raises(ValueError, match="no Dask scheduler answers there"), cluster(options):
        pass
    assert time.perf_counter() - begin < 15


def test_a_worker_that_dies_while_the_cluster_starts_is_a_sentence():
    def kill_the_first():
        me = psutil.Process()
        while not over.wait(0.005):
            for child in me.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if "spawn_main" in " ".join(child.cmdline()):
                        child.kill()
                        return

    over = threading.Event()
    killing = threading.Thread(target=kill_the_first)
    killing.start()
    try:
        with (
            pytest.raises(WorkerDiedError, match=r"while it started.*fewer --workers"),
            cluster(LOCAL),
        ):
            pass
    finally:
        over.set()
        killing.join()
