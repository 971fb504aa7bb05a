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

/// Returns a handler for ComputeTopK or ModelInfer, which send one response to
/// one request. In all functions of this file, `service` must outlive the call.
std::unique_ptr<CallHandler> MakeUnaryCall(TopKService& service, Call& call,
                                           std::unique_ptr<Codec> codec);

/// Returns a handler for StreamTopK, which receives the tensor and sends the
/// response in chunks.
std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call);

/// Returns a handler for ComputeTopKMany or ModelStreamInfer, which send one
/// response to each request, in order.
std::unique_ptr<CallHandler> MakeGroupCall(TopKService& service, Call& call,
                                           MakeCodec make_codec);

}  // namespace topk
