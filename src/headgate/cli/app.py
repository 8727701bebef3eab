"""The command ``headgate``: all its subcommands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from headgate.cli import advise, bench, checkpoint, demo, explain, profile, reproduce, route, run, simulate
from headgate.cli.failure import report_failure
from headgate.cli.version import version

# as shells tell of a process that wrote to nobody
_PIPE_CLOSED = 141


class Commands(TyperGroup):
    """Subcommands whose errors are one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand; end with an exit code, never with a stack trace nobody asked for."""
        try:
            found = super().invoke(ctx)
            # a reader that has gone is noticed here, not when the interpreter ends
            sys.stdout.flush()
            return found
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError as error:
            # whoever reads, like head, has enough; what is left must not fail once more at the very end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED) from error
        except Exception as error:
            raise typer.Exit(report_failure(error, debug=bool(ctx.meta.get("debug")))) from error

    def main(self, args: Sequence[str] | None = None, *more: Any, **settings: Any) -> Any:
        """Read the arguments and run; wrong ones are one line as well."""
        try:
            code = super().main(args, *more, **{**settings, "standalone_mode": False})
        except typer.Abort:
            code = 130
        except typer.TyperException as error:
            print(f"error: {_one_line(error)}", file=sys.stderr)
            code = 2
        sys.exit(code if isinstance(code, int) else 0)


def _one_line(error: typer.TyperException) -> str:
    message = " ".join(error.format_message().split()).removesuffix(".")
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path} --help" if context else message


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"headgate {version()}")
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


app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("advise", epilog=advise.EXAMPLE)(advise.advise)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("profile", epilog=profile.EXAMPLE)(profile.profile)
app.command("simulate", epilog=simulate.EXAMPLE)(simulate.simulate)
app.command("route", epilog=route.EXAMPLE)(route.route)
app.command("reproduce", epilog=reproduce.EXAMPLE)(reproduce.reproduce)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.add_typer(checkpoint.commands, name="checkpoint", epilog=checkpoint.EXAMPLE)


def main() -> None:
    """What the installed script calls."""
    app(prog_name="headgate")


if __name__ == "__main__":
    main()
