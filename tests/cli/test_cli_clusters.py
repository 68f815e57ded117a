"""Clusters: nobody without the certificates gets a word in."""

import argparse
import socket
import ssl

import numpy as np
import pytest

from gemmed.cli import main
from gemmed.cli.clusters import cluster

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


def test_a_cluster_made_here_speaks_with_its_own_processes_only():
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
    monkeypatch.setattr("gemmed.cli.clusters.ANSWER_WITHIN", 4)
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
