// The ways to send requests to a server.
#pragma once

#include <string_view>

#include "core/common/methods.h"

namespace topk::cli {

/// One way to send requests, chosen with --path.
struct BenchPath {
  /// The value of --path.
  std::string_view name;
  Method method;
  bool in_shared_memory = false;

  /// Whether a call has several requests.
  bool batched() const { return method == Method::kComputeTopKMany; }
  bool unary() const { return method == Method::kComputeTopK; }
  /// Whether a request is one message, whose size is limited.
  bool in_one_message() const {
    return method != Method::kStreamTopK && !in_shared_memory;
  }
};

/// All paths; the first is the default.
inline constexpr BenchPath kBenchPaths[] = {
    {"unary", Method::kComputeTopK},
    {"stream", Method::kStreamTopK},
    {"many", Method::kComputeTopKMany},
    {"shm", Method::kComputeTopK, true}};

}  // namespace topk::cli
