// Defect: grpc::Server::Shutdown() sends GOAWAY, but cancels calls that the
// client sent before it received the GOAWAY. No public function sends only a
// GOAWAY, so this header calls grpc_core::Server::SendGoaways(), which the
// library exports but no header of gRPC 1.51 declares.
// Versions: 1.51 to 1.83. Upstream: https://github.com/grpc/grpc/issues/24237
// Test: Instances.ShareAPortAndLoseNoCallWhenOneDrains (process_test.cc).
// Delete when a public function sends GOAWAY, or Shutdown() serves those calls.
#pragma once

#include <dlfcn.h>
#include <grpcpp/server.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

namespace topk {

/// Returns grpc_core::Server::SendGoaways(), or null if the process does not
/// export this function, e.g. because gRPC is linked statically.
inline auto GoawayFunction() {
  // The argument is `this`. A grpc_server* is a pointer to a grpc_core::Server.
  using Function = void (*)(grpc_server*);
  static const auto function = reinterpret_cast<Function>(
      dlsym(RTLD_DEFAULT, "_ZN9grpc_core6Server11SendGoawaysEv"));
  return function;
}

/// Sends a graceful GOAWAY on all open connections. The server still serves
/// calls that a client sends before it receives the GOAWAY. The client sends
/// later calls to other servers. Connections whose TLS handshake is not
/// complete get no GOAWAY. A repeated GOAWAY has no effect on other
/// connections. Returns false if GoawayFunction() is null.
inline bool SendGoaways(grpc::Server& server) {
  if (GoawayFunction() == nullptr) return false;
  // gRPC's internal functions crash unless the thread has an ExecCtx. No public
  // header declares ExecCtx, but a byte buffer creates one while it releases
  // slices. Therefore, call `function` from the release callback of a slice.
  static char nothing = 0;
  grpc::ByteBuffer buffer;
  {
    const grpc::Slice slice(
        &nothing, sizeof(nothing),
        [](void* c_server) {
          GoawayFunction()(static_cast<grpc_server*>(c_server));
        },
        server.c_server());
    buffer = grpc::ByteBuffer(&slice, 1);
  }
  buffer.Clear();
  return true;
}

}  // namespace topk
