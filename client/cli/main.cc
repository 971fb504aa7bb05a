// topk: TopK from the command line.
#include <cstdlib>

#include "client/cli/command.h"

int main(int argc, char** argv) {
  // What gRPC has to say comes with the status of the call. There is no other
  // thread yet.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return topk::cli::RunCommand(argc, argv);
}
