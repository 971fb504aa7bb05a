// The codecs of topk.v1.
#pragma once

#include <memory>

#include "server/calls/codec.h"
#include "server/calls/write_message.h"

namespace topk {

/// The codec of ComputeTopK, which uses the engine's messages.
class TopKCodec : public Codec {
 public:
  StepStatus Read(grpc::ByteBuffer& message, Reader reader,
                  const ChargeParsed& charge,
                  RawMessage<v1::TopKRequest>& to) final {
    return ReadRaw(message, reader, charge, to);
  }
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override {
    return WriteShared(response);
  }
};

/// The codec of ComputeTopKMany. Each result is a response or an error.
class TopKManyCodec final : public TopKCodec {
 public:
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override;
  grpc::ByteBuffer WriteError(const Status& status,
                              const v1::TopKRequest& request) override;
};

}  // namespace topk
