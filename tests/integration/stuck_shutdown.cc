// Preloaded into a process: a gRPC server's shutdown never returns, as if its
// thread were stuck.
#include <unistd.h>

extern "C" void grpc_server_shutdown_and_notify(void*, void*, void*) {
  while (true) pause();
}
