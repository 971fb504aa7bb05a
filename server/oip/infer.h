// What ModelInfer and ModelStreamInfer do with a request.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "server/oip/oip_service.h"
#include "server/telemetry/tally.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// One request, from its bytes to its answer.
class Infer {
 public:
  /// The service outlives it.
  explicit Infer(OipService& oip) : oip_(oip) {}

  /// Reads, understands and computes. Errors as ComputeTopK's, and NOT_FOUND
  /// for models and regions that there are not.
  Status Run(grpc::ByteBuffer& bytes, const ComputeOptions& options,
             Tally& tally, inference::ModelInferResponse& response);

  /// Counts and logs it, with the status with which it ends.
  void Record(const CallInfo& call, const Tally& tally, const Status& status);

  /// The request's own id, as far as it was read.
  const std::string& id() const { return raw_.message.id(); }

 private:
  OipService& oip_;
  RawInfer raw_;
  const Model* model_ = nullptr;
  RawMessage<v1::TopKRequest> request_;
};

/// Returns how many bytes there are to work on for a request: its own, and
/// those of the shared memory that it says it names.
int64_t InferWorkBytes(const OipService& oip, grpc::ByteBuffer& request);

}  // namespace topk
