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

/// Handles one request and sends its response: ComputeTopK and ModelInfer.
/// `service` must outlive the call, here and below.
std::unique_ptr<CallHandler> MakeUnaryCall(TopKService& service, Call& call,
                                           std::unique_ptr<Codec> codec);

/// Receives a tensor in chunks and sends its response in chunks: StreamTopK.
std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call);

/// Sends one response per request, in order: ComputeTopKMany and
/// ModelStreamInfer.
std::unique_ptr<CallHandler> MakeGroupCall(TopKService& service, Call& call,
                                           MakeCodec make_codec);

}  // namespace topk
