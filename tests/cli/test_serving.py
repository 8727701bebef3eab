"""``headgate sql`` with a server, ``stop``, and what ``serve`` and ``replay`` refuse."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli.support import invoke
from tests.fake_runs import behind, without_spark
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, serving, ticks, wait_for
from tests.server.support import Client as Asking
from tests.spark.processes import free_ports

from headgate.cli import serving as serving_command
from headgate.cli.client import Client
from headgate.cli.shell import Shell
from headgate.errors import QueryError, SetupError
from headgate.server.guard import Keys
from headgate.session.run_options import RunOptions
from headgate.session.session import Session
from headgate.spark.reconcile import Transition


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Served]:
    with serving(monkeypatch, tmp_path, STREAMS + QUERIES) as found:
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, 3))
        yield found


def sql(served: Served, *arguments: object) -> Any:
    return invoke("sql", "--url", f"http://127.0.0.1:{served.port}", *arguments)


def test_statements_are_executed_by_the_server(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "token"
    tokens.write_text(f"{TOKEN}\n")
    shown = sql(served, "--token-file", tokens, "SHOW STREAMS")
    assert shown.exit_code == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["stream", "packets", "flows"]
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    found = json.loads(sql(served, "DESCRIBE big", "--json").stdout)
    assert found["answers"][0]["query"] == "big"
    wrong = sql(served, "SHOW STREAMZ")
    assert wrong.exit_code == 2 and wrong.stderr.startswith("error: sql:1:6: ")
    monkeypatch.setenv("HEADGATE_TOKEN", "another")
    assert sql(served, "SHOW STREAMS").stderr.startswith("error: the token is wrong; ")


def test_a_pipe_of_statements_ends_with_the_first_error(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False)
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("SHOW\n QUERIES;\n\\d\n\\p CREATE QUERY x AS SELECT src FROM flows\n")
    )
    shell.loop()
    out = capsys.readouterr().out
    assert "talkers" in out and "stream    packets, flows" in out and "query x" in out
    monkeypatch.setattr("sys.stdin", io.StringIO("SHOW NONSENSE;\nSHOW QUERIES;\n"))
    with pytest.raises(Exception, match="sql:1:6"):
        shell.loop()
    assert capsys.readouterr().out == ""
    for wrong in ("\\watch x", "\\nothing"):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{wrong}\n"))
        with pytest.raises(Exception, match=r"watch takes seconds|unknown command"):
            shell.loop()


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SHOW POOLS; SHOW STREAMS;\n", ["SHOW POOLS;", "SHOW STREAMS;"]),
        ("SELECT 1; SHOW POOLS; -- both\nSHOW QUERIES;", ["SELECT 1;", "SHOW POOLS;", "SHOW QUERIES;"]),
        ("-- it's a comment;\nSHOW POOLS;\n", ["SHOW POOLS;"]),
        ("SHOW -- pools;\nPOOLS;\n", ["SHOW -- pools;\nPOOLS;"]),
        ("/* a;\n b; */ SHOW POOLS;\n", ["/* a;\n b; */ SHOW POOLS;"]),
        ("SELECT 'a;\nb', \";\", r'\\', `;`;\n", ["SELECT 'a;\nb', \";\", r'\\', `;`;"]),
        ("\n;\n ;;\nSHOW POOLS;\n-- the end", ["SHOW POOLS;"]),
        ("\ufeffSHOW POOLS", ["SHOW POOLS"]),
        ("SHOW\n\nPOOLS", ["SHOW\n\nPOOLS"]),
        ("SHOW POOLS; quit\nSHOW STREAMS;", ["SHOW POOLS;"]),
        ("-- first\n  quit ;\nSHOW STREAMS;", []),
        ("SHOW POOLS; \\f SHOW STREAMS;\n", ["SHOW POOLS;", "SHOW STREAMS;"]),
        ("SELECT 'never closed;\nSHOW POOLS;\n", ["SELECT 'never closed;\nSHOW POOLS;"]),
        ("", []),
    ],
)
def test_statements_end_with_their_semicolon_wherever_it_is(
    served: Served, monkeypatch: pytest.MonkeyPatch, text: str, asked: list[str]
) -> None:
    found: list[str] = []
    shell = Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False)
    monkeypatch.setattr(shell, "execute", lambda text, force=False: found.append(text))
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    shell.loop()
    assert [one.rstrip() for one in found] == asked


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, SetupError("away")])
def test_an_interrupt_or_an_error_skips_the_rest_of_a_line_and_ends_a_pipe(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any, is_terminal: bool
) -> None:
    # for the history
    monkeypatch.setenv("HOME", str(tmp_path))
    asked: list[str] = []

    def execute(text: str) -> None:
        asked.append(text)
        if text == "A;":
            raise failure

    shell = Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False)
    monkeypatch.setattr(shell, "execute", execute)
    typed = io.StringIO("A; B;\nC;\n")
    monkeypatch.setattr(typed, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdin", typed)
    with nullcontext() if is_terminal else pytest.raises((KeyboardInterrupt, SetupError)):
        shell.loop()
    assert asked == (["A;", "C;"] if is_terminal else ["A;"])


def test_a_pipe_that_is_not_text_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SHOW \xff;\n"), encoding="utf-8"))
    with pytest.raises(SetupError, match="the statements are not valid UTF-8"):
        Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False).loop()


def test_an_error_is_underlined_in_its_statement(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    wrong = sql(served, "SHOW POOLS;\nSHOW\tSTREAMZ")
    place, *below = wrong.stderr.splitlines()
    assert place.startswith("error: sql:2:6: expected ") and "sql:2:6" not in place[15:]
    assert below == ["SHOW\tSTREAMZ", "    \t^^^^^^^"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\\p CREATE QUERY x AS SELECT nothing FROM packets"))
    with pytest.raises(QueryError) as error:
        Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False).loop()
    assert error.value.detailed().splitlines()[-1].strip() == "^^^^^^^"


def test_rows_cannot_command_the_terminal_and_wide_ones_are_shown_below_each_other(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"name": "\x1b]0;title\x07\u202eabc\nd\r", "größe": None, "deep": {"a": [1]}, "is": True}
    columns = {"name": "string", "größe": "int", "deep": "struct<a:array<int>>", "is": "boolean"}
    found = {"columns": columns, "rows": [row, row], "is_complete": False}
    monkeypatch.setattr(Client, "post", lambda *_: found)
    shell = Shell(Client("http://127.0.0.1:1", TOKEN), 100, False)
    for width in (80, 20):
        console = Console(width=width, force_terminal=True, color_system=None, highlight=False)
        monkeypatch.setattr("headgate.cli.shell.screen", lambda console=console: console)
        shell.execute("SELECT 1")
        out = capsys.readouterr().out
        assert not set("\x1b\x07\r\u202e") & set(out)
        assert all(shown in out for shown in ("größe", "null", '{"a": [1]}', "true"))
        assert out.splitlines()[-1] == "2 rows, and more"
        assert ("-- row 2" in out) == (width == 20)
    assert r"name   \x1b]0;title" in out


def test_a_refused_query_is_let_in_by_force(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, bool]] = []
    assert served.session is not None
    monkeypatch.setattr(served.session, "execute", lambda text, _, force: asked.append((text, force)))
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    text = "CREATE QUERY x AS SELECT src FROM flows"
    assert sql(served, text).exit_code == 0 and sql(served, text, "--force").exit_code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\\f {text};\n"))
    Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False).loop()
    assert asked == [(text, False), (text, True), (text, True)]
    assert capsys.readouterr().out.splitlines()[-1] == "done"


def test_names_and_words_are_completed(served: Served) -> None:
    shell = Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False)
    shell._learn_names()
    assert [shell.complete("pa", number) for number in range(3)] == ["packets", "PAUSE", None]
    assert shell.complete("TALK", 0) == "talkers"


def test_watch_repeats_the_last_statement_until_it_is_interrupted(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(Client(f"http://127.0.0.1:{served.port}", TOKEN), 100, False)
    left = [1, 1]

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        if not left:
            raise KeyboardInterrupt
        left.pop()

    monkeypatch.setattr("headgate.cli.shell.time.sleep", sleep)
    shell.execute("SHOW POOLS")
    with pytest.raises(KeyboardInterrupt):
        shell._obey("\\watch 0.5")
    assert capsys.readouterr().out.count("no pools") == 4


def test_ctrl_c_at_a_terminal_ends_a_statement_as_often_as_it_is_pressed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    command = [sys.executable, "-m", "headgate", "sql", "--url", f"http://127.0.0.1:{served.port}"]
    terminal, of_shell = pty.openpty()
    with (
        os.fdopen(terminal, "r+b", buffering=0) as keys,
        subprocess.Popen(
            command, stdin=of_shell, stdout=of_shell, stderr=of_shell, start_new_session=True
        ) as shell,
    ):
        os.close(of_shell)

        def comes(text: str, within_s: float = 60) -> bool:
            shown = ""
            while text not in shown:
                if not select.select([keys], [], [], within_s)[0]:
                    return False
                shown += keys.read(4096).decode()
            return True

        try:
            assert comes("headgate> ")
            for _ in range(3):
                keys.write(b"SELECT\n")
                assert comes("-> ")
                # readline loses a signal that comes after its prompt and before it waits for keys
                pressed = (shell.send_signal(signal.SIGINT) for _ in range(30))
                assert any(comes("headgate> ", within_s=2) for _ in pressed)
            keys.write(b"SHOW POOLS;\n")
            assert comes("no pools")
            # a server that is away does not end the shell
            served.live.stop()
            wait_for(lambda: not _answers(served.port))
            keys.write(b"SHOW POOLS;\n")
            assert comes("does not answer")
            # what is not complete is not executed at the end of input
            keys.write(b"DROP QUERY big\n")
            assert comes("-> ")
            keys.write(b"\x04")
            assert shell.wait(60) == 0
            left = b""
            # the terminal is gone with the shell
            with suppress(OSError):
                while part := keys.read(4096):
                    left += part
            assert b"does not answer" not in left
        finally:
            shell.kill()


def test_stop_asks_the_server_to_end(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    stopped = invoke("stop", "--url", f"http://127.0.0.1:{served.port}")
    assert (stopped.exit_code, stopped.stdout) == (0, "ending after the current tick\n")


def test_what_cannot_be_reached_or_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_TOKEN", raising=False)
    assert "requires its token; pass --token-file DIR/headgate.token" in invoke("stop").stderr
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    silent = invoke("stop", "--url", "http://127.0.0.1:1")
    assert silent.exit_code == 2
    assert silent.stderr.startswith("error: http://127.0.0.1:1 does not answer: ")
    for wrong in (
        "ftp://x",
        "http://[x",
        "http://x:y",
        "http://x:99999",
        "http://a b",
        "http:///",
        "u@x",
        "x?y",
    ):
        refused = invoke("sql", "--url", wrong)
        assert refused.exit_code == 2
        assert refused.stderr.startswith(f"error: --url {wrong} is not an address; write http://127.0.0.1")
    assert "error: http://127.0.0.1:1 does not answer: " in invoke("stop", "--url", "127.0.0.1:1").stderr
    for wrong in ("secret\ntoken", "t\u00f6ken", "two words"):
        monkeypatch.setenv("HEADGATE_TOKEN", wrong)
        # it is not printed
        assert invoke("stop").stderr == (
            "error: HEADGATE_TOKEN has no token: it is one line of printable characters\n"
        )
    missing = invoke("stop", "--token-file", tmp_path / "none").stderr
    assert missing.startswith(f"error: --token-file {tmp_path}/none cannot be read: ")
    assert invoke("sql", "--checkpoint", tmp_path).stderr.startswith("error: --checkpoint needs a statement")
    assert invoke("replay", tmp_path).stderr.startswith(f"error: {tmp_path} has no record; ")


@pytest.mark.usefixtures("no_spark")
def test_serve_checks_its_options_before_spark_starts(tmp_path: Path) -> None:
    for options, error in (
        (("--strategy", "nope"), "error: unknown strategy nope"),
        (("--memory", "much"), "error: --memory: "),
        (("--port", "70000"), "error: Invalid value for '--port'"),
    ):
        result = invoke("serve", "--checkpoint", tmp_path / "state", *options)
        assert result.exit_code == 2
        assert result.stderr.startswith(error), result.stderr
    away = invoke("serve", "--checkpoint", "s3://bucket/state").stderr
    assert away.startswith("error: --checkpoint is not a local folder; pass the file of its token")
    missing = invoke("serve", tmp_path / "none.sql", "--checkpoint", tmp_path / "state")
    assert missing.stderr.startswith(f"error: no such file: {tmp_path}/none.sql")


def test_sigterm_ends_the_run_and_then_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = without_spark(monkeypatch, Session())
    live = serving_command._live(session, Keys(TOKEN), tmp_path)
    [port] = free_ports(1)

    def end() -> None:
        wait_for(lambda: _answers(port))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end)
    thread.start()
    serving_command._serve(live, STREAMS + QUERIES, "127.0.0.1", port, tmp_path / "headgate.token")
    thread.join()
    assert session.run is not None and not session.run.is_running
    out = capsys.readouterr().out
    assert out.startswith(f"dashboard, opens once: http://127.0.0.1:{port}/?link=")
    assert f"shell: headgate sql --url http://127.0.0.1:{port} --token-file {tmp_path}/headgate.token" in out
    assert not _answers(port)


def test_serving_a_script_reports_what_becomes_of_the_queries_of_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = without_spark(monkeypatch, Session())
    session.options = RunOptions({"checkpoint": str(tmp_path)})
    found = Transition({}, 1, goes_on=("big",), ends=("live",), from_tick=7)
    monkeypatch.setattr(session, "transition", lambda checkpoint: found)
    live = serving_command._live(session, Keys(TOKEN), tmp_path)
    assert live.session is not None
    said: list[str] = []
    live.session.begin(STREAMS + QUERIES, said.append)
    assert said == ["query big goes on", "query live ends; its results stay"]
    assert session.run is not None and session.run.is_running
    behind(session.run).over.set()
    live.session.close()
    live.monitor.close()
    assert live.recording is not None
    live.recording.close()


def test_a_token_file_that_others_can_read_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serving_command, "_serve", lambda *_: None)
    path = tmp_path / "token"
    for mode, is_reported in ((0o600, False), (0o644, True)):
        path.write_text(TOKEN + "\n")
        path.chmod(mode)
        result = invoke("serve", "--checkpoint", tmp_path / "state", "--token-file", path)
        assert result.exit_code == 0, result.stderr
        assert (f"chmod 600 {path}" in result.stderr) == is_reported


def _answers(port: int) -> bool:
    try:
        return Asking(port).ask("GET", "/health")[0] == 200
    except OSError:
        return False
