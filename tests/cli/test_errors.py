"""Errors are one line on standard error with an exit code, found before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.support import COMMANDS, invoke, is_group, script

from headgate.cli.app import describe_failure
from headgate.errors import InternalError, QueryError, SetupError, Span

pytestmark = pytest.mark.usefixtures("no_spark")


def the_error(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return str(result.stderr)


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_missing_file_is_named(command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sql"
    assert the_error(command, path) == f"error: no such file: {path}\n"


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_folder_is_no_file_of_cql(command: str, tmp_path: Path) -> None:
    assert the_error(command, tmp_path) == f"error: {tmp_path} is a folder; pass a CQL file\n"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sql"
    path.write_bytes(b"\xff\xfe\x00")
    assert the_error("run", path) == f"error: {path} is not valid UTF-8; pass a CQL file\n"


@pytest.mark.parametrize("command", ["run", "explain"])
def test_an_error_in_the_query_gives_file_line_column_and_underlines_the_place(
    command: str, tmp_path: Path
) -> None:
    path = script(tmp_path, "CREATE STREAM s (a INT) FROM rate;\n\nCREATE QUERY q AS SELECT b FROM s;\n")
    assert the_error(command, path) == (
        f"error: {path}:3:26: unknown column b; columns: a\n"
        "CREATE QUERY q AS SELECT b FROM s;\n"
        "                         ^\n"
    )


def test_unknown_formats_are_refused_without_spark(tmp_path: Path) -> None:
    path = script(tmp_path, "CREATE STREAM s (a INT) FROM kafak;\nCREATE QUERY q AS SELECT a FROM s;\n")
    assert the_error("explain", path).startswith(f"error: {path}:1:30: unknown source format kafak; known: ")


STREAM = "CREATE STREAM s (ts TIMESTAMP, a INT, t STRING) FROM csv OPTIONS (path 'x', timestamp 'ts'"


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        ("", "SELECT sha22(t, 256) AS h FROM s", "2:26: unknown function sha22; did you mean sha2?"),
        ("", "SELECT sha2(t) AS h FROM s", "2:26: sha2 takes 2 arguments, not 1"),
        ("", "SELECT a FROM s WHERE a", "2:41: a is INT, not a condition; write a comparison, such as a > 0"),
        (
            "",
            "SELECT window(ts, '10 s') AS w FROM s",
            "2:26: window makes windows in GROUP BY only",
        ),
        ("", "SELECT now() AS n FROM s", "2:26: now depends on when a tick runs; use the stream's timestamp"),
        (
            ", slakc '2 s'",
            "SELECT a FROM s",
            "1:93: unknown option slakc of a csv stream; did you mean watermark?",
        ),
    ],
)
def test_what_cannot_be_meant_is_found_without_spark(
    command: str, options: str, query: str, message: str, tmp_path: Path
) -> None:
    path = script(tmp_path, f"{STREAM}{options});\nCREATE QUERY q AS {query};\n")
    assert the_error(command, path).startswith(f"error: {path}:{message}")


def test_a_file_without_a_query_has_nothing_to_run(tmp_path: Path) -> None:
    path = script(tmp_path, "CREATE STREAM s (a INT) FROM rate;")
    assert the_error("run", path) == f"error: {path}: nothing to run; add a CREATE QUERY\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "chian"], "unknown strategy chian; did you mean chain? known: chain, chain-flush"),
        (["--for", "30 parsecs"], "--for: unknown unit 'parsecs'"),
        (["--for", "0s"], "--for must be more than 0"),
        (["--memory", "lots"], "--memory: 'lots' is not a size; write a number and a unit"),
        (["--memory", "64"], "--memory: 64 has no unit; write 64 MB"),
        (["--for", "30"], "--for: 30 has no unit; write 30 SECONDS"),
        (["--json", "--rows-json"], "--json and --rows-json exclude each other; keep one of them"),
        (["--master", "foo"], "'foo' is no Spark master; write local[*], local[4], spark://HOST:PORT, yarn"),
        (["--tick-budget", "fast"], "--tick-budget: 'fast' is not a time"),
        (["--until-done", "--for", "3s"], "--until-done and --for exclude each other; keep one of them"),
        (["--untildone"], "No such option: --untildone"),
    ],
)
def test_bad_options_are_one_line_each(tmp_path: Path, options: list[str], message: str) -> None:
    error = the_error("run", script(tmp_path), *options)
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1


def test_options_are_checked_before_the_file_is_read() -> None:
    assert the_error("run", "nowhere.sql", "--for", "soon").startswith("error: --for")


def test_a_missing_argument_points_at_the_help() -> None:
    assert the_error("run") == "error: Missing argument 'FILE'; see headgate run --help\n"


def test_an_unknown_stage_lists_the_stages(tmp_path: Path) -> None:
    message = "error: --after takes bind, optimize, lower or sql, not parse\n"
    assert the_error("explain", script(tmp_path), "--after", "parse") == message


def test_an_unexpected_error_is_called_internal_and_exits_with_1(tmp_path: Path) -> None:
    # the fixture makes Spark raise something that nobody expects
    result = invoke("run", script(tmp_path), "--until-done")
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last == "internal error: AssertionError: Spark was started (run with --debug for the stack trace)"
    assert "Traceback" not in result.stderr


def test_debug_shows_the_stack_trace(tmp_path: Path) -> None:
    result = invoke("run", script(tmp_path), "--until-done", "--debug")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr


def test_debug_shows_the_stack_trace_of_an_error_of_ours(tmp_path: Path) -> None:
    result = invoke("explain", tmp_path / "x.sql", "--debug")
    assert result.exit_code == 2
    assert "Traceback (most recent call last)" in result.stderr


class FromJava(Exception):
    """Looks like an error of the bridge to Java."""


FromJava.__module__ = "py4j.protocol"

JAVA = """An error occurred while calling o939.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.runJob(DAGScheduler.scala:1549)
Caused by: org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 1, position 1) ==
100 / 0
\tat org.apache.spark.Whatever(Whatever.scala:1)
"""


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (SetupError("no Java\n here"), "error: no Java here", 2),
        (QueryError("bad", Span("a b", 2, 3, "f.sql")), "error: f.sql:1:3: bad\na b\n  ^", 2),
        (InternalError("odd"), "internal error: odd (run with --debug for the stack trace)", 1),
        (KeyError(), "internal error: KeyError: no message (run with --debug for the stack trace)", 1),
        (
            FromJava(JAVA),
            "error: Spark: SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
            1,
        ),
        (FromJava("[SOME_CLASS] First.\nSecond."), "error: Spark: [SOME_CLASS] First.", 1),
    ],
)
def test_errors_are_sorted_by_whose_they_are(error: Exception, text: str, code: int) -> None:
    assert describe_failure(error) == (text, code)


def test_an_error_whose_jvm_has_ended_is_reported_all_the_same() -> None:
    class Orphan(FromJava):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    Orphan.__module__ = FromJava.__module__
    assert describe_failure(Orphan()) == ("error: Spark: Orphan, and its JVM has ended", 1)


def test_the_version_is_printed() -> None:
    import headgate

    assert invoke("--version").stdout == f"headgate {headgate.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
@pytest.mark.parametrize("group", [path for path, command in COMMANDS.items() if is_group(command)])
def test_help_lists_every_command(group: str, arguments: list[str]) -> None:
    result = invoke(*group.split(), *arguments)
    assert result.exit_code == 0
    assert all(name in result.stdout for name in COMMANDS[group].commands)


@pytest.mark.parametrize("command", [path for path in COMMANDS if path])
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: headgate {command} " in " ".join(result.stdout.split())
    assert is_group(COMMANDS[command]) or "--json" in result.stdout


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error() -> None:
    example = Path(__file__).parents[2] / "examples" / "three_streams.sql"
    command = [sys.executable, "-m", "headgate", "explain", example, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eddy"], "unknown study eddy; known: burst, eddies, nexmark, overload, percentiles, predict"),
        (["burst", "--executors", "2"], "--executors goes with eddies, not with burst"),
        (["predict", "--cpu-bound"], "--cpu-bound goes with eddies, not with predict"),
        (["overload", "--seed", "7"], "--seed goes with burst and nexmark, not with overload"),
        (["--query", "q5", "eddies"], "--query goes with nexmark, not with eddies"),
        (["burst", "--queries", "two"], "--queries is one of one, eight, both, not two"),
        (["predict", "--master", "foo"], "'foo' is no Spark master"),
        (
            ["eddies", "--executors", "2", "--master", "local[2]"],
            "--executors and --master exclude each other; keep one of them",
        ),
        (["eddies", "--cpu-bound", "--policy", "q"], "--cpu-bound and --policy exclude each other; keep one"),
        (["eddies", "--policy", "qs"], "unknown policy qs; did you mean q?"),
    ],
)
def test_options_of_a_study_that_do_not_fit_are_one_line_each(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert the_error("bench", *arguments, "--out", tmp_path).startswith(f"error: {message}")


@pytest.mark.parametrize(
    "command",
    [
        ("demo", "--out"),
        ("bench", "overload", "--out"),
        ("reproduce", "chain", "--out"),
        ("simulate", "examples/two_operators.toml", "--plot"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_found_before_the_work(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    # below a file, where not even root can write
    (tmp_path / "file").write_text("")
    result = invoke(*command, tmp_path / "file" / "below" / "x.png")
    assert result.exit_code == 2
    assert "cannot be written to: Not a directory" in result.stderr.splitlines()[-1]
    assert "Spark" not in result.stderr
