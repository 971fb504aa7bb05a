// A library that makes the shutdown of a gRPC server hang when preloaded.
#include <unistd.h>

extern "C" void grpc_server_shutdown_and_notify(void*, void*, void*) {
  while (true) pause();
}
