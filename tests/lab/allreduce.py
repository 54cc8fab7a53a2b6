"""A sum over all ranks through MPI's C interface: `mpirun ... python3 allreduce.py`.

Rank 0 prints `<ranks> ranks on <hosts>: <sum>` when every element of the result is what it must be.
"""

import ctypes
import os
import socket

COUNT = 200_000


def main() -> None:
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)

    def named(name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))

    world, double, total = named("ompi_mpi_comm_world"), named("ompi_mpi_double"), named("ompi_mpi_op_sum")
    assert mpi.MPI_Init(None, None) == 0
    rank, size = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    mine = (ctypes.c_double * COUNT)(*[rank.value + 1.0] * COUNT)
    summed = (ctypes.c_double * COUNT)()
    assert mpi.MPI_Allreduce(mine, summed, COUNT, double, total, world) == 0
    expected = size.value * (size.value + 1) / 2
    assert set(summed) == {expected}, set(summed)
    host = ctypes.create_string_buffer(socket.gethostname().encode(), 64)
    hosts = ctypes.create_string_buffer(64 * size.value)
    character = named("ompi_mpi_char")
    mpi.MPI_Gather(host, 64, character, hosts, 64, character, 0, world)
    if rank.value == 0:
        names = [hosts.raw[at : at + 64].rstrip(b"\0").decode() for at in range(0, len(hosts.raw) - 1, 64)]
        print(
            f"{size.value} ranks on {','.join(names)}: {expected:g}", os.environ.get("MARK", ""), flush=True
        )
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main()
