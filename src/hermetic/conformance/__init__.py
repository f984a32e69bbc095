"""The behaviour suite that every backend passes, ours or not: each promise of the public API, as a
test.

    python -m hermetic.conformance KIND [KEY=VALUE …] [-- PYTEST ARGUMENT…]

`plugin` gives pytest its options and fixtures; the promises are in the `test_*` files.
"""
