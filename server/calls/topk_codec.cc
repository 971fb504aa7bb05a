#include "server/calls/topk_codec.h"

#include <utility>

#include "core/dialects/registry.h"
#include "server/calls/status_map.h"

namespace topk {

grpc::ByteBuffer TopKManyCodec::Write(
    std::shared_ptr<v1::TopKResponse> response) {
  v1::TopKResult result;
  result.set_request_id(response->request_id());
  *result.mutable_response() = std::move(*response);
  return WriteMessage(std::move(result));
}

grpc::ByteBuffer TopKManyCodec::WriteError(const Status& status,
                                           const v1::TopKRequest& request) {
  v1::TopKResult result;
  *result.mutable_error() = ToRpcStatus(status);
  // Do not echo an ID that is too long, because its length is the error.
  if (request.request_id().size() <= kMaxRequestIdBytes) {
    result.set_request_id(request.request_id());
  }
  return WriteMessage(std::move(result));
}

}  // namespace topk
