#include "server/grpc_workarounds/graceful_goaway.h"

#include <dlfcn.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

namespace topk {
namespace {

// grpc_core::Server::SendGoaways(): no header of gRPC 1.51 declares it, but the
// library has it. A grpc_server is a pointer to that class.
using Function = void (*)(grpc_server*);

Function Find() {
  return reinterpret_cast<Function>(
      dlsym(RTLD_DEFAULT, "_ZN9grpc_core6Server11SendGoawaysEv"));
}

}  // namespace

bool SendGoaways(grpc::Server& server) {
  static const Function function = Find();
  if (function == nullptr) return false;
  // gRPC's internal functions crash outside of its execution context, which no
  // public header declares either. The destructor of a byte buffer creates one,
  // and destroys the buffer's slice in it.
  static char nothing = 0;
  grpc::ByteBuffer buffer;
  {
    const grpc::Slice slice(
        &nothing, sizeof(nothing),
        [](void* c_server) { function(static_cast<grpc_server*>(c_server)); },
        server.c_server());
    buffer = grpc::ByteBuffer(&slice, 1);
  }
  buffer.Clear();
  return true;
}

}  // namespace topk
