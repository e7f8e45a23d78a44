# Stands for PyTorch where the package is checked without it: whatever is asked of it is there.
from typing import Any

def __getattr__(name: str) -> Any: ...
