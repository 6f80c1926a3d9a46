"""pyarrow, loaded when it is first used: domains also serve machines that have torch and numpy alone."""

from importlib import import_module
from typing import Any, TypeAlias

Array: TypeAlias = Any  # a pyarrow.Array
DataType: TypeAlias = Any  # a pyarrow.DataType
Table: TypeAlias = Any  # a pyarrow.Table


class _LoadedOnUse:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


pa: Any = _LoadedOnUse("pyarrow")
pc: Any = _LoadedOnUse("pyarrow.compute")
