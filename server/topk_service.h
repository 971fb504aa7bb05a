// The RPCs: admit, decode, engine, map the status. No operator logic.
#pragma once

#include <grpcpp/grpcpp.h>
#include <spdlog/logger.h>

#include <cstdint>

#include "core/engine.h"
#include "server/metrics.h"
#include "server/raw_message.h"
#include "server/stream_io.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// topk.v1.TopKService over an engine. Thread-safe.
///
/// Synchronous: a handler runs on a thread of gRPC's and computes there. The
/// callback API would answer some calls 50-100 ms late after a second of idling
/// (gRPC 1.51). Not the generated service: that one's requests are parsed, and
/// their tensors copied, before a handler sees them, and its answers after.
class TopKService final : public grpc::Service {
 public:
  /// The service's name in the contract.
  static constexpr const char* service_full_name() {
    return "topk.v1.TopKService";
  }

  /// All three outlive the service.
  TopKService(const Engine& engine, Metrics& metrics, spdlog::logger& log,
              int64_t max_message_bytes);

 private:
  struct Call;

  grpc::Status ComputeTopK(grpc::ServerContext& context,
                           const grpc::ByteBuffer& request,
                           grpc::ByteBuffer& response);
  grpc::Status ServeStream(grpc::ServerContext& context, ChunkStream& stream);
  grpc::Status ServeMany(grpc::ServerContext& context, ManyStream& stream);
  grpc::Status GetCapabilities(v1::Capabilities& response) const;

  Status AnswerStream(Call& call, v1::TopKRequest& header, ChunkStream& stream);
  Status AnswerMany(grpc::ServerContext& context, ManyStream& stream);

  /// Runs the engine on one request.
  Status Compute(Call& call, const RawMessage<v1::TopKRequest>& request,
                 v1::TopKResponse& answer);

  /// Counts and logs one request's outcome.
  void Record(const Call& call, const v1::TopKRequest& request,
              const Status& status);

  const Engine& engine_;
  Metrics& metrics_;
  spdlog::logger& log_;
  const int64_t max_message_bytes_;
};

}  // namespace topk
