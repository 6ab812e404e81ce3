"""Sums a vector over all ranks of an MPI program, and checks every sum."""

from __future__ import annotations

import trainmark_job as job
import trainmark_probe as probe


def main() -> None:
    config = job.begin("bytes", {"bytes": 4194304, "steps": 1000})
    params = config["params"]
    numpy, mpi = _libraries()
    from trainmark_loop import Pace  # needs NumPy, like this program

    world = mpi.COMM_WORLD
    size, rank = world.Get_size(), world.Get_rank()
    if size != config["nnodes"] * config["nproc"]:
        raise job.InputError(
            f"MPI sees {size} ranks of {config['nnodes'] * config['nproc']}: mpi4py must belong to the MPI that "
            "starts the ranks"
        )
    own = numpy.full(params["bytes"] // 8, float(rank + 1))
    total = numpy.empty_like(own)
    expected = size * (size + 1) / 2
    world.Barrier()
    probe.init_end()
    probe.train_start()
    pace = Pace(config, 0, params["steps"], size, world.bcast)
    done = 0
    while pace.goes_on(done):
        world.Allreduce(own, total)
        done += 1
        probe.step(own.nbytes)
        if total[0] != expected or total[-1] != expected:
            raise job.InputError(
                f"the sum over {size} ranks is {total[0]}, not {expected}: the network cannot be trusted"
            )
    pace.note(done)
    probe.train_end()
    world.Barrier()
    probe.finish()
    mpi.Finalize()


def _libraries():
    try:
        import numpy
        from mpi4py import MPI
    except ImportError as error:
        raise job.InputError(f"{error}; this program needs `pip install mpi4py numpy` and an MPI library") from None
    return numpy, MPI


if __name__ == "__main__":
    job.run(main)
