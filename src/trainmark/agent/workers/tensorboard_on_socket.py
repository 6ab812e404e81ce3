"""TensorBoard on a socket that it was handed, instead of on a port that every account of the machine reaches.

A program of its own: run by the Python of a job (or of the server, for the logs of a job that has ended), which has
TensorBoard. Arguments: the number of the socket, which listens already, and the folder of the logs.
"""

from __future__ import annotations

import sys
from typing import Any

_NO_TENSORBOARD = 3


def serve(descriptor: int, logs: str) -> int:
    try:
        from tensorboard import default, program
        from werkzeug.serving import make_server
    except ImportError as error:
        sys.stderr.write("%s\n" % error)
        return _NO_TENSORBOARD

    class OnSocket:
        """What TensorBoard asks of a server that it is given."""

        def __init__(self, app: Any, flags: Any) -> None:
            del flags
            self._server = make_server("unix://tensorboard", 0, app, threaded=True, fd=descriptor)

        def serve_forever(self) -> None:
            self._server.serve_forever()

        def get_url(self) -> str:
            return "http://localhost:0/"  # TensorBoard notes a port for others of its kind; there is none

        def print_serving_message(self) -> None:
            pass

    board = program.TensorBoard(default.get_plugins(), None, OnSocket)
    # Its faster reader is another server, on a port.
    board.configure(argv=["tensorboard", "--logdir", logs, "--load_fast", "false", "--reload_interval", "5"])
    return int(board.main())


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1]), sys.argv[2]))
