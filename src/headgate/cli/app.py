"""The command ``headgate``: its subcommands, and their errors as one line and an exit code.

Exit code 2: the request is wrong or cannot be met. Exit code 1: it failed while it ran, or has a defect.
Exit codes 130 and 143: Ctrl-C or SIGTERM has cut it short. Exit code 141: its output has no reader any more.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from headgate.cli import checkpoint_commands, commands, serving, sql_command, study_commands
from headgate.cli.signals import ending_at_once, exit_code, leave_nothing
from headgate.errors import (
    HeadgateError,
    InternalError,
    OutputClosedError,
    QueryError,
    SparkError,
    UserCodeError,
)
from headgate.spark.failures import is_of_spark, spark_reason

# as shells report a process whose reader has gone
_PIPE_CLOSED = 141
_CUT_SHORT = (exit_code(signal.SIGINT), exit_code(signal.SIGTERM), _PIPE_CLOSED)
_LONGEST_PATH = 200


class Commands(TyperGroup):
    """Subcommands whose errors are one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            found = super().invoke(ctx)
            # a closed pipe is noticed here, not when the interpreter exits
            sys.stdout.flush()
            return found
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except KeyboardInterrupt as error:
            print(str(error) or "interrupted", file=sys.stderr)
            raise typer.Exit(getattr(error, "exit_code", exit_code(signal.SIGINT))) from error
        except (BrokenPipeError, OutputClosedError) as error:
            # the reader, such as head, has gone; the rest must not fail again when the interpreter exits
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for number in (sys.stdout.fileno(), sys.stderr.fileno()):
                os.dup2(nowhere, number)
            raise typer.Exit(_PIPE_CLOSED) from error
        except Exception as error:
            if ctx.meta.get("debug"):
                traceback.print_exception(error, file=sys.stderr)
            text, code = describe_failure(error)
            print(text, file=sys.stderr)
            raise typer.Exit(code) from error

    def main(self, args: Sequence[str] | None = None, *more: Any, **settings: Any) -> Any:
        """Parse the arguments and run; usage errors are one line as well."""
        try:
            with ending_at_once():
                code = super().main(args, *more, **{**settings, "standalone_mode": False})
        except typer.Abort:
            code = exit_code(signal.SIGINT)
        except typer.TyperException as error:
            print(f"error: {_usage(error)}", file=sys.stderr)
            code = 2
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: typer.TyperException) -> str:
    message = _one_line(error.format_message()).removesuffix(".")
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path} --help" if context else message


def describe_failure(error: BaseException) -> tuple[str, int]:
    """The text of an error and its exit code."""
    if isinstance(error, QueryError):
        return f"error: {error.detailed()}", 2
    if isinstance(error, (UserCodeError, SparkError)):
        return f"error: {_one_line(str(error))}", 1
    if isinstance(error, HeadgateError) and not isinstance(error, InternalError):
        return f"error: {_one_line(str(error))}", 2
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {_shown(error.filename)}: {error.strerror}", 2
    if is_of_spark(error):
        return f"error: Spark: {spark_reason(error)}", 1
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    reason = _one_line(str(error)) or "no message"
    return f"internal error: {kind}{reason} (run with --debug for the stack trace)", 1


def _shown(path: object) -> str:
    text = _one_line(str(path))
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}..."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _show_version(wanted: bool) -> None:
    if wanted:
        # the version that the package itself states, installed or not
        print(f"headgate {sys.modules['headgate'].__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, name="headgate", add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True, epilog="Start with: headgate demo")
def headgate(
    ctx: typer.Context,
    show_version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Run many continuous SQL queries over bursty streams on Spark."""
    del show_version
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def _register(command: Callable[..., None], arguments: str) -> None:
    app.command(command.__name__, epilog=f"Example: headgate {command.__name__} {arguments}")(command)


_register(commands.run, "examples/network.sql --for 30s --tick-budget 0.5s --checkpoint state/")
_register(commands.explain, "examples/network.sql --after lower")
_register(commands.advise, "examples/network.sql --rate packets=8000 --processors 2")
_register(study_commands.demo, "--seconds 15 --out demo-out")
_register(commands.profile, "examples/network.sql --for 20s")
_register(commands.simulate, "examples/two_operators.toml --strategy all --plot backlog.png")
_register(commands.route, "examples/three_selections.toml --optimize art --rate 220")
_register(commands.nexmark, "nexmark --events 1000000 --seed 1")
_register(sql_command.sql, "'SELECT src, bits FROM big ORDER BY bits DESC LIMIT 10' --checkpoint state/")
_register(serving.serve, "examples/network.sql --checkpoint state/")
_register(serving.stop, "--token-file state/headgate.token")
_register(serving.replay, "state/")
app.add_typer(study_commands.reproductions, name="reproduce")
app.add_typer(study_commands.benches, name="bench")
app.add_typer(checkpoint_commands.commands, name="checkpoint", epilog=checkpoint_commands.EXAMPLE)


def main() -> None:
    """Run the command that was given, as the process itself."""
    try:
        app(prog_name="headgate")
    except SystemExit as end:
        if end.code not in _CUT_SHORT:
            raise
        leave_nothing()
        sys.stdout.flush()
        sys.stderr.flush()
        # threads that wait for Spark or for code of the user's must not keep the process alive
        os._exit(end.code)
