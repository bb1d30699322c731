"""Marks of code: what runs changes them, what does not run does not."""

import functools
import importlib
import linecache
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

from attnlab_helpers.fingerprint import (
    _global_names,
    _used,
    fingerprint,
    functions_used,
    own_fingerprint,
)
from attnlab_helpers.kernels.language import mode
from attnlab_helpers.kernels.stand_ins import Triton, constexpr


def test_fingerprints_see_code_and_nothing_else() -> None:
    def plain():
        def same(x):
            return x * 2

        return same

    def commented():
        def same(x):
            """Words."""

            return x * 2  # more words

        return same

    def other():
        def same(x):
            return x * 3

        return same

    assert fingerprint(plain()) == fingerprint(commented()) != fingerprint(other())
    with pytest.raises(ValueError, match="cannot be recognised"):
        fingerprint(len)


def test_a_function_that_is_called_counts() -> None:
    def outer(activation):
        def gate(x):
            return activation(x) * 2

        return gate

    def relu(x):
        return x.clamp(min=0)

    def square(x):
        return x * x

    assert fingerprint(outer(relu)) == fingerprint(outer(relu)) != fingerprint(outer(square))


def test_the_name_of_an_attribute_is_no_global() -> None:
    def fresh(value):
        names = {"shape": value}
        exec("def rows(x):\n    return x.shape\n", names)
        return names["rows"]

    assert _used(fresh(3)) == {} and _global_names(fresh(3).__code__) == set()


def test_a_captured_value_counts() -> None:
    def times(factor):
        def scaled(x):
            return x * factor

        return scaled

    assert fingerprint(times(2)) == fingerprint(times(2)) != fingerprint(times(3))


def test_wrappers_and_compiled_functions_are_other_functions() -> None:
    def plain(x):
        return x + 1

    @functools.wraps(plain)
    def wrapped(x):
        return plain(x) * 0

    marks = {fingerprint(one) for one in (plain, wrapped, torch.compile(plain))}
    assert len(marks) == 3


def test_a_decorator_counts() -> None:
    def twice(function):
        return lambda x: function(function(x))

    def bare(x):
        return x + 1

    @twice
    def decorated(x):
        return x + 1

    assert fingerprint(bare) != fingerprint(decorated)


def test_functions_that_call_each_other_come_to_an_end() -> None:
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) != fingerprint(odd)


@pytest.mark.parametrize("thing", [functools.partial(print), torch.nn.Identity(), torch.relu, 3])
def test_what_has_no_source_of_its_own_is_refused(thing) -> None:
    with pytest.raises(ValueError, match="cannot be recognised"):
        fingerprint(thing)


KERNELS = """
SIZE = tl.constexpr(64)

@triton.jit
def twice(x):
    return x * 2

@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    # Words.
    places = tl.arange(0, BLOCK) + SIZE
    tl.store(x_ptr + places, twice(tl.load(x_ptr + places)))

def launch(x):
    kernel[(1,)](x, BLOCK=16)
    return x
"""
CELL = count()


def read(text: str, **names):
    """The function `launch` of a notebook cell with this text, where Triton is missing."""
    fake = Triton(RuntimeError)
    names = {"triton": fake, "tl": fake.language, "__name__": "__main__"} | names
    file = f"<cell {next(CELL)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["launch"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.arange(0, BLOCK) + SIZE", "tl.arange(0, BLOCK) - SIZE"),
        ("x * 2", "x * 3"),
        ("constexpr(64)", "constexpr(32)"),
        ("@triton.jit\ndef kernel", "@triton.jit(noinline=True)\ndef kernel"),
        ("BLOCK=16", "BLOCK=32"),
    ],
)
def test_a_kernel_counts_with_what_it_uses(old, new) -> None:
    assert old in KERNELS
    assert fingerprint(read(KERNELS)) != fingerprint(read(KERNELS.replace(old, new)))


def test_words_about_a_kernel_do_not_count() -> None:
    other = KERNELS.replace("# Words.", "# Other words.").replace(
        "def twice(x):", 'def twice(x):\n    """A docstring."""'
    )
    assert fingerprint(read(KERNELS)) == fingerprint(read(other))


def test_a_cuda_source_counts() -> None:
    text = "SOURCE = {!r}\ndef launch(x):\n    return build(SOURCE)(x)\n"
    marks = {fingerprint(read(text.format(source))) for source in ("x + 1", "x + 2", "x + 1")}
    assert len(marks) == 2


def test_a_kernels_mark_is_one_everywhere(tmp_path) -> None:
    ask = (
        "from attnlab_helpers.fingerprint import fingerprint as f; import {0}; print(f({0}.launch))"
    )
    ways = {
        "missing": ("from attnlab_helpers.kernels.language import triton, tl", "hide = {'triton'}"),
        "interpreted": ("from attnlab_helpers.kernels.language import triton, tl", ""),
        "compiled": ("import triton\nimport triton.language as tl\ntl.load", ""),
    }
    if mode() == "missing":
        del ways["interpreted"], ways["compiled"]
    hiding = "import sys; sys.modules['triton'] = None\n"
    marks = {fingerprint(read(KERNELS))}
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    for way, (header, hide) in ways.items():
        check = f"assert type(kernel).__module__.startswith({WHOSE[way]!r}), type(kernel)\n"
        (tmp_path / f"cell_{way}.py").write_text(f"{header}\n{KERNELS}\n{check}")
        answer = subprocess.run(
            [sys.executable, "-c", (hiding if hide else "") + ask.format(f"cell_{way}")],
            env=environment | {"PYTHONPATH": f"{Path.cwd()}{os.pathsep}{tmp_path}"},
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stderr
        marks.add(answer.stdout.strip())
    assert len(marks) == 1


WHOSE = {
    "missing": "attnlab_helpers.kernels",
    "interpreted": "triton.runtime",
    "compiled": "triton.runtime.jit",
}


def test_a_kernel_and_its_function_have_one_mark_of_their_own() -> None:
    kernel = read(KERNELS).__globals__["kernel"]
    assert own_fingerprint(kernel) == own_fingerprint(kernel.fn)
    assert fingerprint(kernel) == fingerprint(kernel.fn)
    launch = read(KERNELS)
    assert functions_used(launch) == {"kernel": launch.__globals__["kernel"].fn}
    assert functions_used(kernel.fn) is None  # it captures SIZE


def test_kernels_of_the_package_do_not_count_and_nested_constants_do() -> None:
    ours = importlib.import_module("attnlab_helpers.kernels.tiled_attention")
    text = "def launch(x):\n    return kernel[(1,)](x, SIZE)\n"
    without = fingerprint(read(text))
    assert fingerprint(read(text, kernel=ours.tiled_attention_kernel)) == without
    values = (1, 2, (1, 2), "a", True)
    marks = {fingerprint(read(text, SIZE=constexpr(value))) for value in values}
    assert len({*marks, without}) == len(values) + 1


def test_t17_a_kernel_of_executed_text_is_refused_readably() -> None:
    names = {"triton": Triton(RuntimeError)}
    exec("@triton.jit\ndef kernel(x):\n    return x\n", names)
    with pytest.raises(ValueError, match="Define it with `def` in a notebook cell or a file"):
        fingerprint(read("def launch(x):\n    kernel[(1,)](x)\n", kernel=names["kernel"]))
