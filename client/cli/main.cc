// topk: TopK from the command line.
#include <cstdlib>

#include "client/cli/command.h"

int main(int argc, char** argv) {
  // gRPC's errors are part of each call's status, so its log is switched off.
  // setenv is safe here because there is no other thread yet.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return topk::cli::RunCommand(argc, argv);
}
