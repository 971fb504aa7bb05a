// A request of topk.v1: the only one of its call, or one of many.
#pragma once

#include "server/calls/request.h"

namespace topk {

/// The request of ComputeTopK.
class ComputeRequest : public Request {
 public:
  using Request::Request;

 protected:
  std::optional<Status> Read(Reader reader, const ChargeParsed& charge) final {
    return ReadRaw(message(), reader, charge, raw_);
  }
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override {
    return WriteShared(response);
  }
  v1::TopKRequest& request() final { return raw_.message; }
  Pieces data() const final { return raw_.data; }
  void ReleaseRead() final { raw_ = {}; }
  void ReleaseData() final {
    raw_.data.clear();
    raw_.slices.clear();
  }

 private:
  RawMessage<v1::TopKRequest> raw_;
};

/// One of ComputeTopKMany's.
class ManyRequest final : public ComputeRequest {
 public:
  using ComputeRequest::ComputeRequest;

  void WriteError(const Status& status) override;

 private:
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override;
};

}  // namespace topk
