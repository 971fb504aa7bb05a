// The codec of ModelInfer and ModelStreamInfer.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/calls/handlers.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "server/oip/statistics.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Translates the protocol's requests to topk.v1, and translates responses
/// back. Read() returns NOT_FOUND if the model or a region does not exist.
class InferCodec final : public Codec {
 public:
  /// `regions` and `statistics` must outlive the codec. If `of_stream` is true,
  /// writes responses of ModelStreamInfer, each marked as the final response to
  /// its request. Otherwise, writes the response of ModelInfer.
  InferCodec(const Regions& regions, ModelStatistics& statistics,
             bool of_stream)
      : regions_(regions), statistics_(statistics), of_stream_(of_stream) {}

  Status Read(grpc::ByteBuffer& message, const ChargeParsed& charge,
              ParsedMessage<v1::TopKRequest>& to) override;
  /// Writes one element of raw_output_contents per output, as clients expect.
  /// The element is empty if the output is in shared memory.
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override;
  grpc::ByteBuffer WriteError(const Status& status,
                              const v1::TopKRequest& request) override;
  Status Translate(Status status) const override;
  void Record(const RequestStats& stats, bool ok) override;

 private:
  const Regions& regions_;
  ModelStatistics& statistics_;
  const bool of_stream_;
  // The first block of the arena. Most parsed messages fit into it.
  alignas(std::max_align_t) std::array<char, size_t{2} << 10> block_;
  google::protobuf::Arena arena_{block_.data(), block_.size()};
  ParsedInfer raw_{arena_};
  const Model* model_ = nullptr;
};

}  // namespace topk
