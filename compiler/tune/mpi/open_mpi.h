// Messages between the processes that mpirun has started, all on one thread. Functions return 0 where they succeed.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

int heddle_mpi_begin(int *rank, int *ranks);
int heddle_mpi_send(int rank, const char *bytes, int count);
/// Waits for a message; how many bytes it has, or less than 0.
int heddle_mpi_wait(int rank);
int heddle_mpi_receive(int rank, char *bytes, int count);
/// Waits for all processes to come here.
void heddle_mpi_end(void);

#ifdef __cplusplus
}
#endif
