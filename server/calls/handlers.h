// Handlers of the compute methods.
#pragma once

#include <functional>
#include <memory>

#include "server/calls/call.h"
#include "server/calls/codec.h"

namespace topk {

class TopKService;

/// Returns the codec for one request.
using MakeCodec = std::function<std::unique_ptr<Codec>()>;

/// Returns the handler of ComputeTopK and ModelInfer, which send one response
/// to one request. For all functions of this file, `service` must outlive the
/// call.
std::unique_ptr<CallHandler> MakeUnaryCall(TopKService& service, Call& call,
                                           std::unique_ptr<Codec> codec);

/// Returns the handler of StreamTopK. Both tensor and response are sent in
/// chunks.
std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call);

/// Returns the handler of ComputeTopKMany and ModelStreamInfer. Each request
/// gets one response, in order.
std::unique_ptr<CallHandler> MakeGroupCall(TopKService& service, Call& call,
                                           MakeCodec make_codec);

}  // namespace topk
