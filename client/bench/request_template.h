// Requests that the load generator sends repeatedly.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/request.h"
#include "client/numpy/npy.h"
#include "core/common/methods.h"
#include "topk/shared_memory.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {
class Engine;
}

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

/// The request to send.
struct RequestSpec {
  std::vector<int64_t> shape = {1, 1000};
  std::string dtype = "f32";
  OperatorFlags operation;
  /// The tensor, of this shape and element type. Random if not set.
  std::optional<NpyArray> input;
};

/// A request, serialized once for all calls.
struct RequestTemplate {
  /// The tensor of each request.
  NpyArray tensor;
  /// The request without its data.
  v1::TopKRequest request;
  /// The messages of a call. With --path shm, there is instead one message for
  /// each caller, which refers to one of `regions`.
  std::vector<grpc::ByteBuffer> messages;
  std::vector<SharedMemory> regions;
  /// The expected response to each request, if responses are verified.
  std::optional<v1::TopKResponse> expected;
};

/// Returns a template with the tensor in `spec`, or with random elements, whose
/// floats are finite and >= 0. Returns INVALID_ARGUMENT with
/// the flag if the dialect does not support the flags, or if the tensor is too
/// large for the path.
Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            const BenchPath& path,
                                            uint64_t seed);

/// Serializes the messages. `batch` is the number of requests per call. Returns
/// an error if the shared memory cannot be created.
Status SerializeMessages(const BenchPath& path, int64_t batch, int callers,
                         RequestTemplate& made);

/// Computes and sets the expected response. Returns the errors of
/// Engine::Compute().
Status SetExpected(const Engine& engine, RequestTemplate& made);

}  // namespace topk::cli
