// Checks responses before they are used.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string_view>

#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns an INTERNAL error with the reason BAD_ANSWER, for a response that
/// does not follow the protocol. `field` is the response's field, or "".
Status BadAnswer(std::string_view field, std::string_view message);

/// Parses a message from the server. Returns BAD_ANSWER if it is malformed.
Status ReadAnswer(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message);

/// Checks that the response has the outputs that the request selects, that
/// their types and ranks fit the request, and that their data has the size that
/// their type and shape imply. Returns OK or BAD_ANSWER. Trusts the
/// server's values and indices.
Status CheckResponse(const v1::TopKRequest& request,
                     const v1::TopKResponse& response);

/// Adds a message of StreamTopK to the response that is being assembled.
Status Assemble(v1::TopKResponseChunk& chunk,
                std::optional<v1::TopKResponse>& response);

}  // namespace topk
