"""What has to hold while torch.export traces a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.distributions import Distribution

from graphaudit.capture.seeds import preserved_generators, seed_generators
from graphaudit.quiet import quiet


@contextmanager
def tracing(seed: int) -> Iterator[None]:
    """Seeded generators, no argument validation in torch.distributions, no warnings; all put back afterwards."""
    with ExitStack() as stack:
        stack.enter_context(preserved_generators())
        stack.enter_context(_unvalidated_distributions())
        stack.enter_context(quiet())
        seed_generators(seed)
        yield


@contextmanager
def _unvalidated_distributions() -> Iterator[None]:
    """Validation reads tensor values, so no graph can hold it; alone it makes torch.export refuse PPO and SAC of
    Stable-Baselines3. `set_default_validate_args` does not reach a policy that asks for validation explicitly."""
    original = Distribution.__init__

    def without_validation(self: Distribution, *args: Any, **kwargs: Any) -> None:
        if len(args) > 2:
            args = (*args[:2], False)
        else:
            kwargs["validate_args"] = False
        original(self, *args, **kwargs)

    Distribution.__init__ = without_validation  # type: ignore[method-assign]
    try:
        yield
    finally:
        Distribution.__init__ = original  # type: ignore[method-assign]
