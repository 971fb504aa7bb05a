// The ways to send calls to a server.
#pragma once

#include <span>
#include <string_view>

#include "client/bench/load.h"
#include "topk/client.h"

namespace topk::cli {

/// One way to send requests, chosen with --path.
struct BenchPath {
  /// The value of --path.
  std::string_view name;
  /// Whether a request is one message, whose size is limited.
  bool in_one_message;
  bool batched;
  /// Creates one caller's Send function. `client` must outlive the function.
  Send (*make_caller)(const Client& client);
};

/// Returns all paths; the first is the default.
std::span<const BenchPath> BenchPaths();

}  // namespace topk::cli
