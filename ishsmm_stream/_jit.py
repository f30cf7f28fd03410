"""How kernels are compiled, and how a kernel is chosen by the type of a prior.

Everything numba lives behind the names of this file:

* ``kernel`` compiles a function. It trusts its arguments; the public wrapper that calls it has checked them. Arrays
  are its caller's, and it does not count references to them: numba would do so wherever an array is named, by atomic
  instructions, which took two fifths to two thirds of the time of what is compiled here. So it makes no arrays
  (numba refuses) and takes none from an owning kernel (they would never be freed); views of what it was given it
  returns to other kernels only (an owning one would free what it does not own).
* ``owning_kernel`` compiles one that may: it counts. It is for what allocates, and for what Python calls with a random
  generator, which numba counts too and would never let go of otherwise. What it does often it leaves to kernels.
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


def _source_digest(layer: str, folder: Path | None) -> str:
    """A hash of the source that the kernels of a layer are made of; those of another package, in ``folder``, may call
    all of ours, and those beside them.

    Numba's cache looks at a kernel's own file only and would run stale code after a change in a callee's file
    (numba #1833), so the cache folder is keyed by all of the source that can hold a callee.
    """
    package = Path(__file__).parent
    layers: tuple[str, ...] = ()
    if folder is not None:
        layers = _LAYERS
    elif layer in _LAYERS:
        layers = _LAYERS[: _LAYERS.index(layer) + 1]
    paths = sorted(package.glob("_*.py")) + [
        path for name in layers for path in sorted(package.glob(f"{name}/**/*.py"))
    ]
    digest = hashlib.sha256(numba.__version__.encode())
    for path in paths + (sorted(folder.glob("*.py")) if folder is not None else []):
        digest.update("/".join(path.parts[-2:]).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder(layer: str, folder: Path | None = None) -> str:
    """A writable folder for compiled kernels; ``NUMBA_CACHE_DIR`` and ``XDG_CACHE_HOME`` are respected."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    roots = [Path(chosen)] if chosen else []
    roots += [Path("~/.cache").expanduser(), Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"]
    digest = _source_digest(layer, folder)
    for root in roots:
        found = root / "ishsmm_stream" / digest
        try:
            found.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(found, os.W_OK):
            return str(found)
    return ""  # numba's own rule: beside the source file, or no cache


def _references(*, counted: bool) -> Any:
    """Whether compiled code counts references, as numba's decorators take it; its types do not know the option, which
    numba shows for ``register_jitable`` ("disable runtime allocation")."""
    return {"_nrt": counted}


def kernel(function: Callable[..., Any], *, inlined: bool = False, owning: bool = False) -> Any:
    """Compile ``function``: without the GIL, cached on disk, IEEE arithmetic as written (no fastmath).

    Bounds are not checked and division by zero follows numpy (inf, nan) in place of an exception. Kernels of other
    packages may call each other where their files lie in one folder. ``inlined``: made part of the kernels that call
    it, for small steps with many arrays.
    """
    config: Any = numba.config
    previous = config.CACHE_DIR
    # The cache takes its folder at decoration, so the setting is ours for this line only.
    package, _, rest = function.__module__.partition(".")
    is_ours = package == __package__
    config.CACHE_DIR = cache_folder(
        rest.split(".")[0] if is_ours else package, None if is_ours else Path(function.__code__.co_filename).parent
    )
    try:
        return numba.njit(
            nogil=True, cache=True, error_model="numpy", forceinline=inlined, **_references(counted=owning)
        )(function)
    finally:
        config.CACHE_DIR = previous


owning_kernel = functools.partial(kernel, owning=True)


def by_family(declaration: Callable[..., Any], *, default: bool = False) -> Any:
    """Make ``declaration`` a function whose body is registered for each type of its first argument.

    Bodies are compiled as kernels are, and those registered as ``owning`` as owning kernels. With ``default``, the
    declaration's own body serves the types that register none.

    >>> @by_family
    ... def area(shape, factor):
    ...     '''The area of a shape.'''
    >>> @area.register(Square)                                                     # doctest: +SKIP
    ... def _(shape, factor):
    ...     return factor * shape.side**2
    """
    bodies: dict[type, Callable[..., Any]] = {}
    owners: set[type] = set()
    own_body = declaration if default else None

    @functools.wraps(declaration)
    def dispatch(family: Any, *arguments: Any) -> Any:
        body = bodies.get(type(family), own_body)
        if body is None:
            raise TypeError(f"{declaration.__name__} is not defined for {type(family).__name__}")
        return body(family, *arguments)

    def register(family_type: type, *, owning: bool = False) -> Callable[..., Any]:
        def add(body: Callable[..., Any]) -> Callable[..., Any]:
            bodies[family_type] = body
            if owning:
                owners.add(family_type)
            return body

        return add

    def offer(owning: bool) -> None:
        @overload(dispatch, strict=False, jit_options=_references(counted=owning))
        def choose(family: Any, *arguments: Any) -> Any:
            chosen = getattr(family, "instance_class", type(None))
            return bodies.get(chosen, own_body) if (chosen in owners) == owning else None

    offer(owning=False)
    offer(owning=True)
    dispatch.register = register  # type: ignore[attr-defined]
    dispatch.bodies = bodies  # type: ignore[attr-defined]
    return dispatch


by_family_or_default = functools.partial(by_family, default=True)
