// What a shared search needs of MPI. This is a library of its own, which the command opens where mpirun has started it:
// the command itself needs no MPI.
#include "compiler/tune/mpi/open_mpi.h"

#include <mpi.h>
#include <time.h>

int heddle_mpi_begin(int *rank, int *ranks) {
  int given;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
    return 1;
  return MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS || MPI_Comm_size(MPI_COMM_WORLD, ranks) != MPI_SUCCESS;
}

int heddle_mpi_send(int rank, const char *bytes, int count) {
  return MPI_Send(bytes, count, MPI_CHAR, rank, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
}

// MPI's own waiting takes a CPU, on which others measure.
int heddle_mpi_wait(int rank) {
  const struct timespec moment = {0, 1000000};
  for (;;) {
    int there = 0, count = 0;
    MPI_Status status;
    if (MPI_Iprobe(rank, 0, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS)
      return -1;
    if (there)
      return MPI_Get_count(&status, MPI_CHAR, &count) == MPI_SUCCESS ? count : -1;
    nanosleep(&moment, NULL);
  }
}

int heddle_mpi_receive(int rank, char *bytes, int count) {
  return MPI_Recv(bytes, count, MPI_CHAR, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
}

void heddle_mpi_end(void) { MPI_Finalize(); }
