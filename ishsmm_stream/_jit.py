"""How kernels are compiled, and how a kernel is chosen by the type of a prior.

Everything numba lives behind the two names of this file:

* ``kernel`` compiles a function. It trusts its arguments; the public wrapper that calls it has checked them.
* ``by_family`` makes a function whose body is chosen by the type of its first argument, a NamedTuple that holds
  a prior's numbers. Inside compiled code numba makes the choice when it compiles; in plain Python (and under
  ``NUMBA_DISABLE_JIT=1``) a dictionary makes it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.extending import overload

# Kernels of a folder call kernels of the folders before it, and those of the package's own files.
_LAYERS = ("model", "batch", "online")


def _source_digest(layer: str) -> str:
    """A hash of the source that the kernels of a layer are made of.

    Numba's cache looks at a kernel's own file only and would run stale code after a change in a callee's file
    (numba #1833), so the cache folder is keyed by all of the source that can hold a callee.
    """
    package = Path(__file__).parent
    layers = _LAYERS[: _LAYERS.index(layer) + 1] if layer in _LAYERS else ()
    paths = sorted(package.glob("_*.py")) + [
        path for name in layers for path in sorted(package.glob(f"{name}/**/*.py"))
    ]
    digest = hashlib.sha256(numba.__version__.encode())
    for path in paths:
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder(layer: str) -> str:
    """A writable folder for compiled kernels; ``NUMBA_CACHE_DIR`` and ``XDG_CACHE_HOME`` are respected."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    roots = [Path(chosen)] if chosen else []
    roots += [Path("~/.cache").expanduser(), Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"]
    digest = _source_digest(layer)
    for root in roots:
        folder = root / "ishsmm_stream" / digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""  # numba's own rule: beside the source file, or no cache


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function``: without the GIL, cached on disk, IEEE arithmetic as written (no fastmath).

    Bounds are not checked and division by zero follows numpy (inf, nan) in place of an exception.
    """
    config: Any = numba.config
    previous = config.CACHE_DIR
    # The cache takes its folder at decoration, so the setting is ours for this line only.
    config.CACHE_DIR = cache_folder(function.__module__.removeprefix("ishsmm_stream.").split(".")[0])
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = previous


def by_family(declaration: Callable[..., Any]) -> Any:
    """Make ``declaration`` a function whose body is registered per type of its first argument.

    >>> @by_family
    ... def area(shape, factor):
    ...     '''The area of a shape.'''
    >>> @area.register(Square)                                                     # doctest: +SKIP
    ... def _(shape, factor):
    ...     return factor * shape.side**2
    """
    bodies: dict[type, Callable[..., Any]] = {}

    @functools.wraps(declaration)
    def dispatch(family: Any, *arguments: Any) -> Any:
        return bodies[type(family)](family, *arguments)

    def register(family_type: type) -> Callable[..., Any]:
        def add(body: Callable[..., Any]) -> Callable[..., Any]:
            bodies[family_type] = body
            return body

        return add

    @overload(dispatch, strict=False)
    def choose(family: Any, *arguments: Any) -> Any:
        return bodies.get(getattr(family, "instance_class", type(None)))

    dispatch.register = register  # type: ignore[attr-defined]
    dispatch.bodies = bodies  # type: ignore[attr-defined]
    return dispatch
