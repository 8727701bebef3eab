"""WITH (utility = '...'): which tuples of a stream to keep first when some have to go."""

from __future__ import annotations

from itertools import pairwise

from headgate.cql.statement import Setting
from headgate.errors import QueryError, known_names
from headgate.model.shedding import Utility
from headgate.planning.logical import Project, StreamScan, scans
from headgate.planning.text import tokens_of


def utility_of(setting: Setting, branches: tuple[Project, ...]) -> Utility:
    """The expression over columns of one stream: the query's only one, or that of the one alias it names."""
    own = [scan for branch in branches for scan in scans(branch) if isinstance(scan, StreamScan)]
    streams = {scan.stream for scan in own}
    named = {scan.alias.lower(): scan for scan in own}
    text, done, used = "", 0, set()
    tokens = tokens_of(setting.value)
    for token, following in pairwise(tokens):
        scan = named.get(token.key.strip("`"))
        if scan is not None and following.key == ".":
            used.add(scan.stream)
            text += setting.value[done : token.start]
            done = following.end
    text += setting.value[done:]
    chosen = used or (streams if len(streams) == 1 else set())
    if len(chosen) != 1 or not text.strip():
        aliases = known_names(sorted(named))
        message = f"utility is an expression over columns of one stream; write alias.column, of {aliases}"
        raise QueryError(message, setting.span)
    return Utility(chosen.pop(), text.strip())
