"""``headgate checkpoint``: verify the state of a run, and roll it back if it is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli.parameters import CONF, DEBUG, JARS, JSON, PACKAGES, argument, value
from headgate.errors import DamagedStateError, SetupError
from headgate.formats.html import listed
from headgate.formats.plain_json import json_text

if TYPE_CHECKING:
    from headgate.spark.application.extras import Extras
    from headgate.spark.checkpoint import Rollback
    from headgate.spark.file_system import Files
    from headgate.spark.history import TickState

EXAMPLE = "Example: headgate checkpoint verify state/"
DIR: Any = argument("DIR", "The folder of --checkpoint.")

_SHOWN = 5

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def checkpoint(ctx: typer.Context) -> None:
    """Verify the state that a run has left, or step back to an earlier tick of it."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@commands.command("verify", epilog=EXAMPLE)
def verify(
    folder: str = DIR,
    packages: str | None = PACKAGES,
    jars: str | None = JARS,
    conf: list[str] = CONF,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Compare all files of a checkpoint with the checksums in its manifests; nothing is changed.

    Lists the ticks that a run can step back to, newest first. The exit code is 0 if a run can go on from the
    newest one, 1 if it is damaged.
    """
    from headgate.report.screen import screen, states_table
    from headgate.spark.application.extras import Extras
    from headgate.spark.checkpoint import Checkpoint

    root, files = opened(folder, Extras.of(packages, jars, conf))
    kept = Checkpoint(files, root)
    states = list(kept.history.states())
    if not states:
        raise SetupError(f"{root} has no manifests: it is not a checkpoint, or its first tick never ended")
    owner_damage = None
    try:
        kept.check_owner()
    except DamagedStateError as error:
        owner_damage = str(error)
    if as_json:
        document = {"ticks": [_state_json(state) for state in states], "damage": owner_damage}
        print(json_text(document))
    else:
        screen().print(states_table(states))
        if owner_damage:
            print(owner_damage)
    if owner_damage or not states[0].is_good:
        raise typer.Exit(1)


@commands.command("rollback", epilog="Example: headgate checkpoint rollback state/ --to 41")
def rollback(
    folder: str = DIR,
    to: int | None = value("TICK", "The tick to step back to; by default the last good one."),
    packages: str | None = PACKAGES,
    jars: str | None = JARS,
    conf: list[str] = CONF,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Step back to the last good tick of a checkpoint; the ticks after it run again at the next start.

    Results in files stay exactly-once: the next run first removes those of the ticks that it repeats.
    Callbacks see the rows of these ticks a second time.
    """
    from headgate.spark.application.extras import Extras
    from headgate.spark.checkpoint import roll_back

    root, files = opened(folder, Extras.of(packages, jars, conf))
    done = roll_back(files, root, to)
    if as_json:
        document = {
            "from_tick": done.from_tick,
            "to_tick": done.to_tick,
            "batches_again": list(done.batches_again),
            "restored_headgate_json": done.restored_owner,
            "repaired": list(done.repaired),
        }
        print(json_text(document))
    else:
        print(_rollback_text(done))


def opened(folder: str, extras: Extras) -> tuple[str, Files]:
    """Path and file system of a checkpoint; a local folder needs no Spark."""
    from headgate.spark.file_system import Files, local_path

    if "://" in folder and not folder.startswith("file:"):
        from headgate.spark.application.cluster import own_session

        return folder.rstrip("/"), Files(own_session("local[1]", extras=extras))
    path = local_path(folder)
    if not path.is_dir():
        raise SetupError(f"{folder} is not a folder; pass the one given to --checkpoint")
    return str(Path(path).absolute()), Files()


def _state_json(state: TickState) -> dict[str, object]:
    manifest = state.manifest
    return {
        "tick": state.tick,
        "written_s": manifest.written_s if manifest else None,
        "blocks": len(manifest.block_paths()) if manifest else None,
        "rows": sum(ref.rows for ref in manifest.block_refs()) if manifest else None,
        "good": state.is_good,
        "damages": [str(damage) for damage in state.damages],
    }


def _rollback_text(done: Rollback) -> str:
    if not done.changed:
        return f"tick {done.to_tick} is good; nothing to do"
    lines = ["headgate.json was damaged, and is restored"] if done.restored_owner else []
    if done.repaired:
        lines.append(f"repaired {listed(done.repaired, _SHOWN)}")
    if done.batches_again and done.from_tick == done.to_tick:
        lines.append(f"removed what was planned after tick {done.to_tick}; the next start plans it anew")
    elif done.batches_again:
        lines += [
            f"stepped back from tick {done.from_tick} to tick {done.to_tick}; "
            "later input is read again at the next start",
            "results in files stay exactly-once; callbacks see the rows of these ticks a second time",
        ]
    elif done.from_tick != done.to_tick:
        lines.append(f"stepped back from tick {done.from_tick} to tick {done.to_tick}")
    return "\n".join(lines)
