"""The least a ReFrame check can do: run `true`, accept whatever it says."""

import reframe
from reframe.core.builtins import sanity_function


@reframe.simple_test
class Noop(reframe.RunOnlyRegressionTest):
    valid_systems = ["*"]  # noqa: RUF012
    valid_prog_environs = ["*"]  # noqa: RUF012
    executable = "true"

    @sanity_function
    def ran(self) -> bool:
        return True
