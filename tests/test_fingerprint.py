"""Marks of code: what runs changes them, what does not run does not."""

import functools

import pytest
import torch

from attnlab_helpers.fingerprint import _global_names, _used, fingerprint


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
