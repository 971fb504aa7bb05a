// A request of ModelInfer or ModelStreamInfer.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "proto/library_versions.h"
#include "server/calls/request.h"
#include "server/oip/infer_response.h"
#include "server/oip/oip_service.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// One request of the protocol. Errors as ComputeTopK's, and NOT_FOUND for
/// models and regions that do not exist.
class InferRequest final : public Request {
 public:
  /// Both outlive it; `kind` is the message that its response is written as.
  InferRequest(OipService& oip, AdmittedCall& admitted, InferMessage kind)
      : Request(oip.topk(), admitted), oip_(oip), kind_(kind) {}

  void WriteError(const Status& status) override;
  void Record(const CallInfo& call, const Status& status) override;

 private:
  std::optional<Status> Read(Reader reader,
                             const ChargeParsed& charge) override;
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override;
  Status Translated(Status status) const override;
  v1::TopKRequest& request() override { return request_; }
  Pieces data() const override { return data_; }
  void ReleaseRead() override;
  void ReleaseData() override;

  OipService& oip_;
  const InferMessage kind_;
  // The arena of the message. Its first block holds all small submessages.
  alignas(std::max_align_t) std::array<char, size_t{2} << 10> block_;
  google::protobuf::Arena arena_{block_.data(), block_.size()};
  RawInfer raw_{arena_};
  const Model* model_ = nullptr;
  v1::TopKRequest& request_ = NewMessage<v1::TopKRequest>(arena_);
  Pieces data_;
};

}  // namespace topk
