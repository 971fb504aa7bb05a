// Preloaded into a process to make the shutdown of a gRPC server hang.
#include <unistd.h>

extern "C" void grpc_server_shutdown_and_notify(void*, void*, void*) {
  while (true) pause();
}
