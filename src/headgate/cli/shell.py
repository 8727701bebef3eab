"""The shell of ``headgate sql``: statements from a terminal or a pipe, answers as tables."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from headgate.cli.client import Answered, Client
from headgate.cql.tokens import statements_in
from headgate.errors import HeadgateError, QueryError, SetupError
from headgate.formats.plain_json import json_text
from headgate.report.screen import screen, visible

_HISTORY = Path("~/.local/state/headgate/history")
_MOST_LINES = 2_000
_WATCH_S = 2.0
# of a column; with less, rows are shown one below the other
_LEAST_WIDTH = 7
_WORDS = (
    *("ALTER", "CREATE", "DESCRIBE", "DROP", "FROM", "GROUP BY", "INTO", "ORDER BY", "PAUSE", "QUERIES"),
    *("QUERY", "RANGE", "RELATION", "RESUME", "SELECT", "SET", "SHOW", "SLIDE", "STREAM", "STREAMS", "WHERE"),
)
_END = ("\\q", "quit", "exit")
_HELP = """\
statements end with ; and may take several lines
\\d            list all names
\\p STATEMENT  plans and advice, nothing is declared
\\f STATEMENT  execute it although bounds would be broken
\\watch [S]    repeat the last statement every S seconds (2 by default), until Ctrl-C
\\?            this list
\\q            end, as do quit and exit"""


class Shell:
    """Reads statements, sends them to a server, and prints its answers."""

    def __init__(self, client: Client, limit: int, as_json: bool) -> None:
        self._client = client
        self._limit = limit
        self._as_json = as_json
        self._last = ""
        self._names: list[str] = []

    def execute(self, text: str, force: bool = False) -> None:
        """Execute statements and print the answers; ``force`` lets in what would break bounds."""
        self._last = text
        found = self._ask("/sql", {"text": text, "limit": min(self._limit, 10_000), "force": force})
        if self._as_json:
            print(json_text(found))
        elif "rows" in found:
            _print_rows(found)
        else:
            for answer in found["answers"]:
                print(answer["text"])
            for warning in found["warnings"]:
                print(f"warning: {warning}", file=sys.stderr)
            if not found["answers"]:
                print("done")

    def _ask(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._client.post(path, document)
            return found
        except Answered as error:
            raise error.within(document["text"]) from None

    def loop(self) -> None:
        """Read and execute until the end of input; in a pipe, the first error is the last statement."""
        is_terminal = sys.stdin.isatty()
        # a wrong address or token is reported before the first statement
        self._learn_names()
        if is_terminal:
            print(f"connected to {self._client.url}; \\? lists commands")
        with _at_terminal(self) if is_terminal else nullcontext():
            for texts in _statements(is_terminal):
                if self._obey_all(texts, is_terminal):
                    break

    def _obey_all(self, texts: list[str], is_terminal: bool) -> bool:
        """Execute what was written in one line, up to the first error; whether it is the end."""
        try:
            return any(self._obey(text) for text in texts)
        except HeadgateError as error:
            # a server that is away may come back
            if not is_terminal:
                raise
            shown = error.detailed() if isinstance(error, QueryError) else error
            print(f"error: {shown}", file=sys.stderr)
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print()
        return False

    def _obey(self, text: str) -> bool:
        """Execute a statement or a command of the shell; whether it is the end."""
        command, _, rest = text.partition(" ")
        if command in _END:
            return True
        if command == "\\?":
            print(_HELP)
        elif command == "\\d":
            for kind, names in self._learn_names().items():
                print(f"{kind:9} {', '.join(names)}" if names else "", end="\n" if names else "")
        elif command == "\\p":
            found = self._ask("/preview", {"text": rest})
            print(f"{found['explain']}\n\n{found['advice']}")
        elif command == "\\f":
            self.execute(rest, force=True)
            self._learn_names()
        elif command == "\\watch":
            self._watch(rest)
        elif command.startswith("\\"):
            raise Answered(f"unknown command {command}; \\? lists them")
        else:
            self.execute(text)
            self._learn_names()
        return False

    def _watch(self, rest: str) -> None:
        try:
            every_s = float(rest) if rest.strip() else _WATCH_S
        except ValueError:
            raise Answered(f"\\watch takes seconds, not {rest.strip()!r}") from None
        if not self._last:
            raise Answered("\\watch repeats the last statement, and there is none yet")
        if not 0.1 <= every_s <= 3600:
            raise Answered("\\watch takes 0.1 to 3600 seconds")
        while True:
            print(f"-- {time.strftime('%H:%M:%S')}")
            self.execute(self._last)
            time.sleep(every_s)

    def _learn_names(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self._client.get("/names")
        self._names = sorted({name for names in found.values() for name in names})
        return found

    def complete(self, begun: str, number: int) -> str | None:
        """The so-many-th name or word that begins like this, as readline requests it."""
        known = [*self._names, *_WORDS]
        fitting = [word for word in known if word.lower().startswith(begun.lower())]
        return fitting[number] if number < len(fitting) else None


def _statements(is_terminal: bool) -> Iterator[list[str]]:
    """Texts up to a semicolon, those that end in one line together; commands of the shell are one line."""
    text = ""
    while True:
        try:
            line = input(("      -> " if text else "headgate> ") if is_terminal else "")
        except EOFError:
            if is_terminal:
                # what has been typed so far was not to be executed yet
                print()
            elif left := statements_in(text)[1]:
                yield [left]
            return
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            text = ""
            print()
            continue
        except UnicodeDecodeError:
            raise SetupError("the statements are not valid UTF-8") from None
        if not text:
            text = "" if line.lstrip().startswith("--") else line.removeprefix("\ufeff")
        else:
            text = f"{text}\n{line}"
        # looking for ends in every line of a long statement would take its square
        found: list[str] = []
        if (is_terminal or ";" in line) and not _is_command(text):
            found, text = statements_in(text)
        if _is_command(text):
            found.append(text.strip().rstrip(";"))
            text = ""
        elif not text.strip():
            text = ""
        if found:
            yield found


def _is_command(text: str) -> bool:
    return text.lstrip().startswith("\\") or text.strip().rstrip("; ") in _END


@contextmanager
def _at_terminal(shell: Shell) -> Iterator[None]:
    """Line editing, and Ctrl-C that ends a statement; other commands end at the second one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _line_editing(shell):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _line_editing(shell: Shell) -> Iterator[None]:
    """History and completion, where the platform has them."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = _HISTORY.expanduser()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(path)
    readline.set_history_length(_MOST_LINES)
    readline.set_completer(shell.complete)
    readline.set_completer_delims(" \t\n,;()[]=<>'")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            readline.write_history_file(path)


def _print_rows(found: dict[str, Any]) -> None:
    console, columns = screen(), found["columns"]
    rows = [[_shown(value) for value in row.values()] for row in found["rows"]]
    if console.is_terminal and len(columns) * _LEAST_WIDTH > console.width:
        longest = max(map(len, columns))
        for number, row in enumerate(rows, 1):
            console.print(Text(f"-- row {number:,}"))
            for name, value in zip(columns, row, strict=True):
                console.print(Text(f"{visible(name):{longest}}  {value}"), soft_wrap=True)
    else:
        table = Table(box=box.SIMPLE_HEAD)
        for name, kind in columns.items():
            is_number = kind.startswith(
                ("int", "bigint", "double", "float", "decimal", "smallint", "tinyint")
            )
            justify: Any = "right" if is_number else "left"
            table.add_column(Text(visible(name)), justify=justify, overflow="ellipsis")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
    more = "" if found["is_complete"] else ", and more"
    console.print(f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}{more}")


def _shown(value: Any) -> str:
    return visible(value if isinstance(value, str) else json_text(value, indent=None))
