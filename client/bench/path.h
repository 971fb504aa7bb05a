// The ways in which a load's calls reach a server.
#pragma once

#include <span>
#include <string_view>

#include "client/bench/load.h"
#include "topk/client.h"

namespace topk::cli {

/// A way to a server: one row of a table.
struct BenchPath {
  /// As --path has it.
  std::string_view name;
  /// Whether the tensor is sent outside of the request; see TransportOptions.
  bool separate_tensor;
  /// Whether a call has several requests.
  bool batched;
  /// Returns what makes one caller's calls. The client outlives it.
  Send (*make_caller)(const Client& client);
};

/// Returns the whole table; the first one is the default.
std::span<const BenchPath> BenchPaths();

}  // namespace topk::cli
