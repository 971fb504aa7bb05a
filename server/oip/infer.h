// What ModelInfer and ModelStreamInfer do with a request.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <optional>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "server/oip/infer_response.h"
#include "server/oip/oip_service.h"
#include "server/telemetry/tally.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// One request, from its bytes to its answer.
class Infer {
 public:
  /// The service outlives it.
  explicit Infer(OipService& oip) : oip_(oip) {}

  /// Returns how many bytes there are to work on for a request: its own, and
  /// those of the shared memory that it says it names. Reads it, if it takes
  /// that to tell.
  int64_t WorkBytes(grpc::ByteBuffer& bytes);

  /// Reads it, unless it has been read, understands, computes and writes.
  /// Errors as ComputeTopK's, and NOT_FOUND for models and regions that there
  /// are not.
  Status Run(grpc::ByteBuffer& bytes, const ComputeOptions& options,
             Tally& tally, InferMessage message, grpc::ByteBuffer& answer);

  /// Counts and logs it, with the status with which it ends.
  void Record(const CallInfo& call, const Tally& tally, const Status& status);

  /// Whether it has been read.
  bool read() const { return read_.has_value(); }

  /// The request's own id, as far as it was read.
  const std::string& id() const { return raw_.message.id(); }

 private:
  const Status& ReadOnce(grpc::ByteBuffer& bytes);

  OipService& oip_;
  // Messages of many parts, all of them here but for what is large.
  alignas(std::max_align_t) std::array<char, size_t{2} << 10> block_;
  google::protobuf::Arena arena_{block_.data(), block_.size()};
  RawInfer raw_{arena_};
  std::optional<Status> read_;
  const Model* model_ = nullptr;
  v1::TopKRequest& request_ =
      *google::protobuf::Arena::CreateMessage<v1::TopKRequest>(&arena_);
};

}  // namespace topk
