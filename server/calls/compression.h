// Decompresses messages.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>

#include "core/base/checked.h"
#include "topk/status.h"

namespace topk {

/// Returns whether the client compressed the message, with gzip or deflate.
/// Takes constant time.
bool IsCompressed(grpc::ByteBuffer& message);

/// Replaces a compressed message with its content. Calls `charge` for each
/// slice of `message` and at least every 64 KiB of content, with the number of
/// bytes to be allocated for the content, and stops at an error. Returns
/// RESOURCE_EXHAUSTED with reason MESSAGE_TOO_LARGE if the content exceeds
/// `max_bytes`, and INVALID_ARGUMENT if the data is damaged. `limit` names the
/// limit in the error message. After an error, `message` is unchanged.
Status Decompress(grpc::ByteBuffer& message, int64_t max_bytes,
                  const char* limit,
                  const std::function<Status(Size bytes)>& charge);

}  // namespace topk
