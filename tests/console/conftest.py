"""Servers keep tokens in the runtime directory: each test starts and ends without them."""

from tests.serve.conftest import no_tokens_left

__all__ = ["no_tokens_left"]
