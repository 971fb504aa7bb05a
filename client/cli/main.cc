// topk: TopK from the command line.
#include <cstdlib>

#include "client/cli/command.h"

int main(int argc, char** argv) {
  // Turn off gRPC's log, because the status of a failed call describes the
  // error. setenv is safe here because there is no other thread yet.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return topk::cli::RunCommand(argc, argv);
}
