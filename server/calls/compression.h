// Decompresses messages.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>

#include "core/base/checked.h"
#include "core/base/status.h"

namespace topk {

/// Returns whether the client compressed the message, with gzip or deflate.
/// Takes constant time.
bool IsCompressed(grpc::ByteBuffer& message);

/// Replaces a compressed message with its content. Before allocating each piece
/// of the content (at most 64 KiB), calls `charge` with the size of the piece,
/// and stops at an error. Returns RESOURCE_EXHAUSTED with reason
/// MESSAGE_TOO_LARGE if the content exceeds `max_bytes`, and INVALID_ARGUMENT
/// if the data is damaged. `limit` names the limit in the error message. After
/// an error, `message` is unchanged. Takes about 3 ns for each byte of the
/// content.
Status Decompress(grpc::ByteBuffer& message, int64_t max_bytes,
                  const char* limit,
                  const std::function<Status(Size bytes)>& charge);

}  // namespace topk
