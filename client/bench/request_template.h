// Requests that the load generator sends repeatedly.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/common/methods.h"
#include "topk/shared_memory.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// One way to send requests, chosen with --path.
struct BenchPath {
  /// The value of --path.
  std::string_view name;
  std::string_view method;
  bool in_shared_memory = false;

  /// Whether a call has several requests.
  bool batched() const { return method == kComputeTopKMany; }
  bool unary() const { return method == kComputeTopK; }
  /// The maximum size of a tensor. A message must be smaller than 2 GiB, of
  /// which 1 MiB is reserved for fields other than the tensor.
  int64_t max_tensor_bytes() const {
    return method == kStreamTopK || in_shared_memory
               ? std::numeric_limits<int64_t>::max()
               : (int64_t{2} << 30) - (1 << 20);
  }
};

/// All paths; the first is the default.
inline constexpr BenchPath kBenchPaths[] = {{"unary", kComputeTopK},
                                            {"stream", kStreamTopK},
                                            {"many", kComputeTopKMany},
                                            {"shm", kComputeTopK, true}};

/// A request, serialized once for all calls.
struct RequestTemplate {
  /// The tensor of each request.
  v1::Tensor tensor;
  /// The request without its data.
  v1::TopKRequest request;
  /// The messages of a call. With --path shm, there is instead one message for
  /// each caller, which refers to a part of `memory`.
  std::vector<grpc::ByteBuffer> messages;
  std::optional<SharedMemory> memory;
  /// The expected response to each request, if responses are verified.
  std::optional<v1::TopKResponse> expected;
};

/// Returns a tensor with random elements, whose floats are finite and >= 0.
/// Returns INVALID_ARGUMENT if it would have more than `max_bytes` bytes.
Result<v1::Tensor> RandomTensor(const DTypeInfo& type,
                                const std::vector<int64_t>& shape,
                                int64_t max_bytes, uint64_t seed);

/// Serializes the messages. `batch` is the number of requests per call. Returns
/// an error if the shared memory cannot be created.
Status SerializeMessages(const BenchPath& path, int64_t batch, int callers,
                         RequestTemplate& made);

}  // namespace topk::cli
