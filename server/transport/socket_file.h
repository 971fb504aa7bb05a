// The file of a Unix socket on which gRPC listens.
#pragma once

#include <string>

#include "server/owned_file.h"

namespace topk {

/// The file of a socket that this process has just bound. Removes it on
/// destruction, unless the socket of another server has taken its place.
/// Destroy it after the gRPC server.
///
/// gRPC 1.51 unlinks whatever socket is at the path when it closes its
/// listener: that of a successor, which then serves where nobody can connect.
/// So unlink() itself is ours in programs that use this, and leaves such a
/// file.
class SocketFile {
 public:
  explicit SocketFile(const std::string& path);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const OwnedFile file_;
};

}  // namespace topk
