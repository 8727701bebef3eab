"""A user's own strategy: a class in a file, named as ``file.py:ClassName``."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType

from headgate.errors import HeadgateError, SetupError, known_names
from headgate.scheduling.strategy import Strategy


def own_strategy(file: str, class_name: str) -> Strategy:
    """An instance of the class; raises if it is none of a strategy."""
    where = f"{file}:{class_name}"
    path = Path(file)
    if not path.is_file():
        raise SetupError(f"there is no file {file}; write the strategy as file.py:ClassName")
    module = _imported(path)
    own = getattr(module, class_name, None)
    if not isinstance(own, type):
        classes = [
            n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__
        ]
        raise SetupError(f"{file} has no class {class_name}; it has {known_names(classes)}")
    for method in ("choose", "prepare"):
        if not callable(getattr(own, method, None)):
            arguments = "view" if method == "choose" else "network, profiles"
            raise SetupError(f"{where} is no strategy: it needs a method {method}(self, {arguments})")
    try:
        strategy: Strategy = own()
    except HeadgateError:
        raise
    except Exception as error:
        raise SetupError(f"{where} cannot be made without arguments: {_one_line(error)}") from None
    if not hasattr(strategy, "name"):
        strategy.name = class_name
    return strategy


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_own_strategy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        raise SetupError(f"{path}{f':{line}' if line else ''}: {_one_line(error)}") from None
    return module


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
