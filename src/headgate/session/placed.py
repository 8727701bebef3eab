"""Functions and routers of the user's: found by their location in files and modules, prepared for pools."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.errors import QueryError, SetupError, Span, known_names
from headgate.routing import Router, router_named
from headgate.routing.policies import Optimal

# a job of a pool lasts about a second, so the weights are solved for in every second one
_SOLVE_EVERY_S = 2.0
# kinds of UDFs that are called with the values of one row, not with whole columns
_BY_ROW = (100, 101)
# kinds that make one value of all of a group, of pandas Series and of Arrow arrays
_BY_GROUP = (202, 252)


def router_from(name: str) -> Router:
    """The router of a policy's name, or of a class at 'file.py:ClassName' or 'package.module:ClassName'."""
    if ":" not in name:
        return router_named(name)
    try:
        router = located_function(name)()
    except QueryError:
        raise
    except Exception as error:
        raise SetupError(f"{name} does not create a router: {type(error).__name__}: {error}") from error
    for method in ("prepare", "route", "learn"):
        if not callable(getattr(router, method, None)):
            raise SetupError(
                f"{name} does not create a router: {type(router).__name__} has no method {method}"
            )
    found: Router = router
    if not hasattr(found, "name"):
        found.name = name.rpartition(":")[2]
    return found


def router_for_run(name: str) -> Router:
    """The same, adapted to the pace of runs on Spark."""
    router = router_from(name)
    if isinstance(router, Optimal):
        router.every_s = _SOLVE_EVERY_S
    return router


def located_function(location: str, span: Span | None = None) -> Callable[..., Any]:
    """The function at 'file.py:name' or 'package.module:name'."""
    place, _, name = location.rpartition(":")
    module = _module(place, span)
    found = getattr(module, name, None)
    if not callable(found):
        known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise QueryError(f"{place} has no function {name}; functions: {known_names(known)}", span)
    function: Callable[..., Any] = found
    return function


def _module(place: str, span: Span | None) -> ModuleType:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        return _from_file(Path(place), span)
    except QueryError:
        raise
    except (Exception, SystemExit) as error:
        raise QueryError(f"{place} cannot be imported: {type(error).__name__}: {error}", span) from error


def _from_file(path: Path, span: Span | None) -> ModuleType:
    beside = Path(span.origin).parent / path if span else path
    path = path if path.is_file() else beside
    if not path.is_file():
        raise QueryError(f"no such file: {path}", span)
    spec = importlib.util.spec_from_file_location(f"headgate_functions_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # tasks cannot import this module, so its definitions are sent along
    from headgate.spark.eddies.task import pickle_by_value

    pickle_by_value(module)
    return module


def is_grouped(fn: object) -> bool:
    """Whether it is a UDF of Spark that makes one value of whole groups."""
    return getattr(fn, "evalType", None) in _BY_GROUP


def plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a pool calls with the values of one tuple; for a Spark UDF, the one inside it."""
    inner = getattr(fn, "func", None)
    if inner is None or not hasattr(fn, "returnType"):
        return fn
    if getattr(fn, "evalType", _BY_ROW[0]) in _BY_ROW:
        function: Callable[..., Any] = inner
        return function

    def only_by_column(*_: Any) -> Any:
        raise SetupError("a UDF over whole columns cannot be placed on a pool; use a plain function")

    return only_by_column
