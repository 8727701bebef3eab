"""Routes of a server over HTTP: what they answer, and what they refuse."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.fake_runs import FakeSparkRun, behind
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, serving, ticks

from headgate.server.metrics import Metrics


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Served]:
    """A server with a run of 30 ticks."""
    with serving(monkeypatch, tmp_path, STREAMS + QUERIES) as found:
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, 30))
        yield found


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Served]:
    """A server to which nothing has been declared."""
    with serving(monkeypatch, tmp_path) as found:
        yield found


def test_health_needs_no_token_and_every_other_route_does(served: Served) -> None:
    served.token = None
    assert served.get("/health") == {"status": "ok"}
    for operation in served.live.operations():
        if operation.path != "/health":
            path = operation.path.replace("{name}", "talkers")
            status, error = served.error(operation.method, path)
            assert status == 401, path
            assert error.startswith("a token is needed; open the link")


def test_every_route_is_in_the_openapi_document(served: Served) -> None:
    document = served.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    for operation in served.live.operations():
        described = document["paths"][operation.path][operation.method.lower()]
        assert {int(code) for code in described["responses"]} == set(operation.codes)
        for code, response in described["responses"].items():
            assert response["description"]
            assert (code >= "400") == (
                "application/json" in response.get("content", {}) and "$ref" in str(response)
            )
    assert sum(len(methods) for methods in document["paths"].values()) == len(served.live.operations())
    numbers = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(numbers)) == len(numbers)
    body = document["paths"]["/sql"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["text"] == {"type": "string"}
    assert document["paths"]["/health"]["get"]["security"] == []
    assert document["components"]["securitySchemes"]["cookie"]["name"] == f"headgate-{served.port}"


def test_the_run_starts_with_the_first_query(empty: Served) -> None:
    assert empty.error("GET", "/status") == (409, "no query runs yet; declare one with POST /sql")
    assert empty.ask("GET", "/ready")[0] == 503
    assert empty.post("/sql", {"text": STREAMS}) == {"answers": [], "warnings": []}
    assert empty.session is not None and empty.session.run is None
    empty.post("/sql", {"text": QUERIES})
    assert empty.session.run is not None and empty.session.run.is_running
    assert {query["name"] for query in empty.get("/queries")} == {"talkers", "heavy", "big"}


def test_statements_may_be_plain_text_and_answers_are_text_and_json(served: Served) -> None:
    status, _, body = served.ask("POST", "/sql", b"SHOW STREAMS; DESCRIBE big;", content_type="text/plain")
    shown, described = json.loads(body)["answers"]
    assert status == 200
    assert [row["stream"] for row in shown["rows"]] == ["packets", "flows"]
    assert shown["text"].splitlines()[0].split()[0] == "stream"
    assert described["query"] == "big"


def test_an_error_in_a_statement_is_one_line_with_its_place(served: Served) -> None:
    answer = served.post("/sql", {"text": "SHOW\n  STREAMZ"}, expected=400)
    assert answer["kind"] == "QueryError"
    assert (answer["line"], answer["column"]) == (2, 3)
    assert answer["error"].startswith("sql:2:3: ")


def test_a_select_that_writes_is_refused(served: Served) -> None:
    text = "WITH x AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' USING json SELECT * FROM x"
    assert served.post("/sql", {"text": text}, expected=400)["error"].startswith("sql:1:22: a SELECT reads")


def test_passwords_of_statements_are_neither_shown_nor_recorded(empty: Served) -> None:
    empty.post(
        "/sql", {"text": STREAMS.replace("timestamp 'ts')", "timestamp 'ts', spark.password 'hunter2')", 1)}
    )
    history = empty.ask("GET", "/history")[2].decode()
    assert "hunter2" not in history and "password '***'" in history


def test_a_preview_explains_and_declares_nothing(served: Served) -> None:
    text = "CREATE QUERY small AS SELECT src FROM packets WHERE bytes < 10;"
    found = served.post("/preview", {"text": text})
    assert "small" in found["explain"] and "talkers" not in found["explain"]
    assert found["fits"] is None and found["advice"]
    assert "small" not in served.get("/names")["query"]
    assert (
        served.post("/preview", {"text": "CREATE QUERY x AS SELECT nothing FROM packets;"}, 400)["line"] == 1
    )


def test_counts_of_ticks_are_the_same_everywhere(served: Served) -> None:
    status, history = served.get("/status"), served.get("/history")
    rows_in = sum(tick["streams"]["packets"][0] for tick in history["ticks"])
    assert len(history["ticks"]) == status["ticks"] == 30
    assert status["streams"]["packets"]["rows_in"] == rows_in == history["ticks"][-1]["streams"]["packets"][5]
    assert served.get("/streams")["packets"]["rows_in"] == rows_in
    metrics = served.ask("GET", "/metrics")[2].decode()
    assert f'headgate_stream_rows_in_total{{stream="packets"}} {rows_in}' in metrics
    results = sum(tick["queries"]["big"][0] for tick in history["ticks"])
    assert served.get("/queries/big")["rows_out"] == results
    assert f'headgate_query_rows_total{{query="big"}} {results}' in metrics
    queues = served.get("/queues")
    assert set(queues) == {one["name"] for one in served.get("/operators")["operators"]}
    last = history["ticks"][-1]["operators"]
    assert all(queues[name]["tuples"] == waiting for name, (_, waiting, _) in last.items())


def test_the_history_is_compressed_for_those_who_can_read_it(served: Served) -> None:
    _, plain_headers, plain = served.ask("GET", "/history")
    _, headers, body = served.ask("GET", "/history", accept_encoding="gzip")
    assert "content-encoding" not in plain_headers and headers["content-encoding"] == "gzip"
    assert len(body) < len(plain)
    assert json.loads(gzip.decompress(body))["ticks"] == json.loads(plain)["ticks"]


def test_metrics_are_in_the_format_of_prometheus(served: Served) -> None:
    status, headers, body = served.ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    kinds: dict[str, str] = {}
    samples: set[str] = set()
    described = ""
    text = r"(?:[^\"\\\n]|\\[\"\\n])*"
    sample = re.compile(rf'(headgate_[a-z_]+)(\{{[a-z]+="{text}"(?:,[a-z]+="{text}")*\}})? (\S+)')
    assert body.endswith(b"\n")
    for line in body.decode().splitlines():
        if line.startswith("# HELP "):
            described = line.split()[2]
            assert described not in kinds
        elif line.startswith("# TYPE "):
            # once, below the description, and before its samples
            _, _, name, kind = line.split()
            assert name == described
            kinds[name] = kind
            assert (kind == "counter") == name.endswith("_total")
        else:
            found = sample.fullmatch(line)
            assert found is not None and found[1] == described, line
            assert float(found[3]) >= 0
            assert (found[1], found[2]) not in samples
            # a label of this name is for summaries
            assert ("quantile=" in line) == (kinds[described] == "summary")
            samples.add((found[1], found[2]))
    assert len(samples) > 20


def test_metrics_keep_all_digits_and_escape_labels() -> None:
    found = Metrics()
    values = (123_456_789, 1.0, 0.1, 1e-7, float("inf"), float("nan"), None)
    found.add("x", "gauge", "Values.", [({"n": str(n)}, value) for n, value in enumerate(values)])
    found.add("y", "gauge", "A label.", [({"name": 'a"b\\c\nd'}, 1)])
    lines = found.text().splitlines()
    assert [line.split()[1] for line in lines[2:8]] == ["123456789", "1", "0.1", "1e-07", "+Inf", "NaN"]
    assert lines[-1] == r'headgate_y{name="a\"b\\c\nd"} 1'


def test_strategy_charts_settings_and_statistics_are_those_of_the_run(served: Served) -> None:
    strategy = served.get("/strategy")
    assert strategy["name"] == "fifo"
    assert served.session is not None and served.session.run is not None
    paths = [list(path) for path in served.session.run.network.paths()]
    assert [chart["operators"] for chart in strategy["charts"]] == paths
    assert all(chart["points"][0] == [0, 1] and chart["points"][-1][1] == 0 for chart in strategy["charts"])
    settings = served.get("/settings")
    assert settings["latency_s"] == {"talkers": 4.0, "heavy": 6.0, "big": None}
    assert settings["memory_bytes"] == 1e6 and "chain" in settings["strategies"]
    assert "operators" in served.get("/statistics")
    assert served.get("/pools") == {"web": {"slots": 2, "calls": 0, "passed": 0, "busy_s": 0.0}}


def test_a_change_of_settings_reaches_the_run_or_is_refused(served: Served) -> None:
    change = {
        "strategy": "chain",
        "memory": "2 MB",
        "latency": {"big": "3 s", "heavy": None},
        "tick_budget": 0.5,
    }
    served.post("/settings", change)
    assert served.session is not None
    [(strategy, *others)] = behind(served.session.run).changes
    assert [strategy.name, *others] == ["chain", 2 * 2**20, {"big": 3.0, "heavy": None}, 0.5]
    for wrong in (
        {"strategy": "chian"},
        {"memory": "2 XB"},
        {"tick_budget": 0},
        {"latency": {"bgi": "1 s"}},
        {"speed": 1},
        {},
    ):
        assert served.post("/settings", wrong, expected=400)["error"]
    assert len(behind(served.session.run).changes) == 1


def test_a_run_that_has_failed_is_reported_and_the_server_goes_on(served: Served) -> None:
    assert served.session is not None
    behind(served.session.run).fail(RuntimeError("the disk\nis full"))
    served.live.monitor.look()
    status, _, body = served.ask("GET", "/ready")
    assert status == 503
    assert json.loads(body)["error"] == "the disk is full"
    assert served.get("/health") == {"status": "ok"}
    assert "headgate_up 0" in served.ask("GET", "/metrics")[2].decode()
    # pages that show it do not report it to the program
    with pytest.raises(RuntimeError, match="the disk"):
        served.session.close()


def test_stop_is_answered_before_the_server_ends(served: Served) -> None:
    assert served.post("/stop", {}, expected=202) == {"status": "ending after the current tick"}


def test_requests_of_the_documentation_are_answered(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSparkRun, "result_ticks", lambda self, query: [], raising=False)
    none = SimpleNamespace(toArrow=lambda: pa.table({"src": pa.nulls(0, pa.string())}))
    monkeypatch.setattr(FakeSparkRun, "no_results", lambda self, query: none, raising=False)
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("curl ")]
    assert len(lines) >= 10
    for line in lines:
        words = shlex.split(line.replace("$TOKEN", served.token or "").replace("$URL", ""))[1:]
        pairs = list(pairwise(words))
        headers = dict(value.split(": ") for option, value in pairs if option == "-H")
        body = next((value.encode() for option, value in pairs if option == "--data"), None)
        sent = {name.lower().replace("-", "_"): value for name, value in headers.items()}
        served.token = None
        status, _, answer = served.ask("GET" if body is None else "POST", words[-1], body, **sent)
        served.token = TOKEN
        assert status == 200, (line, answer)
    for operation in served.live.operations():
        name = operation.path.replace("/{name}", "").rpartition("/")[2]
        assert name in page or operation.path == "/static/{name}", operation.path
