"""The loop as WebAssembly, made of the functions that Numba compiles for this machine: the same source, another target.

lab.page.loop ──Numba──► LLVM IR ──llvmlite's WebAssembly target──► object ──functions exported by name──► module

An object of LLVM's is a module already, but for its exports: none of its functions calls anything that is not in it.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TRIPLE = "wasm32-unknown-unknown"
FEATURES = "+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext"
PLAIN = {  # no code for this machine's processor, and none that other builds left behind
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_LOOP_VECTORIZE": "0",
    "NUMBA_SLP_VECTORIZE": "0",
    "NUMBA_DISABLE_JIT": "0",
}
LONGEST_NAME = 1 << 16  # labels hold the names of functions, which hold the types of all arrays
EXPORT = 7
MAGIC = b"\0asm\1\0\0\0"


def cached_module(folder: Path) -> bytes:
    """The WebAssembly module; `folder` keeps it for as long as its sources are the same."""
    from lab.engine.compiled.layout import code_stamp

    sources = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("loop.py", "wasm.py"))
    made = folder / f"loop-{code_stamp()[:12]}-{hashlib.sha256(sources).hexdigest()[:12]}.wasm"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        env = os.environ | PLAIN | {"NUMBA_CACHE_DIR": str(folder / "numba")}
        subprocess.run([sys.executable, "-m", "lab.page.wasm", str(made)], check=True, env=env)
    return made.read_bytes()


def compile_module() -> bytes:
    """Compiles the module; call it in a process with the environment `PLAIN`."""
    import llvmlite.binding as llvm
    from numba import njit, types

    from lab.page.loop import EXPORTS

    llvm.set_option("", f"--non-global-value-max-name-size={LONGEST_NAME}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(opt=3, features=FEATURES, reloc="static")
    whole, names = None, {}
    for name, function in EXPORTS.items():
        alone = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
        made = njit(types.void(types.int64), **alone)(function.py_func)
        (result,) = made.overloads.values()
        names[name] = result.fndesc.llvm_func_name
        part = llvm.parse_assembly(_for_page(result.library.get_llvm_str(), str(machine.target_data)))
        whole = whole.link_in(part) or whole if whole else part
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(whole, passes)
    return with_exports(machine.emit_object(whole), names)


def _for_page(ir: str, layout: str) -> str:
    ir = re.sub(r"^target datalayout = .*$", f'target datalayout = "{layout}"', ir, flags=re.MULTILINE)
    ir = re.sub(r"^target triple = .*$", f'target triple = "{TRIPLE}"', ir, flags=re.MULTILINE)
    return re.sub(
        r"^(@\S+ = )common (local_unnamed_addr )?global", r"\1internal global", ir, flags=re.MULTILINE
    )


def with_exports(object_file: bytes, names: dict[str, str]) -> bytes:
    """An object as a module that exports some of its functions: {name: symbol}."""
    sections = list(_sections(object_file))
    numbers = _functions(next(body for kind, body in sections if kind == 0 and body[:8] == b"\7linking"))
    exports = [_named(name) + b"\0" + _number(numbers[symbol]) for name, symbol in names.items()]
    exported = _number(len(exports)) + b"".join(exports)
    kept = [(kind, body) for kind, body in sections if kind]
    before = [each for each in kept if each[0] < EXPORT]
    whole = [*before, (EXPORT, exported), *kept[len(before) :]]
    return MAGIC + b"".join(bytes([kind]) + _number(len(body)) + body for kind, body in whole)


def _sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(MAGIC)
    while at < len(data):
        size, start = _read(data, at + 1)
        yield data[at], data[start : start + size]
        at = start + size


def _functions(linking: bytes) -> dict[str, int]:
    """The functions of a linking section's table of symbols: name -> number."""
    found, at = {}, 9  # after its name and version
    while at < len(linking):
        kind, (size, at) = linking[at], _read(linking, at + 1)
        end = at + size
        if kind == 8:
            symbols, at = _read(linking, at)
            for _ in range(symbols):
                of, (flags, at) = linking[at], _read(linking, at + 1)
                if of == 1 and not flags & 0x10:  # data that is there: name, segment, offset, size
                    size, at = _read(linking, at)
                    at += size
                    for _ in range(3):
                        _, at = _read(linking, at)
                elif of == 1:
                    size, at = _read(linking, at)
                    at += size
                elif of == 3:
                    _, at = _read(linking, at)
                else:
                    number, at = _read(linking, at)
                    if not flags & 0x10 or flags & 0x40:
                        size, at = _read(linking, at)
                        if of == 0:
                            found[linking[at : at + size].decode()] = number
                        at += size
        at = end
    return found


def _named(name: str) -> bytes:
    return _number(len(name)) + name.encode()


def _number(value: int) -> bytes:
    r"""LEB128, unsigned.

    >>> _number(300), _read(_number(300), 0)
    (b'\xac\x02', (300, 2))
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(compile_module())
