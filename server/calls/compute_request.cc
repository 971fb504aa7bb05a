#include "server/calls/compute_request.h"

#include <utility>

#include "core/dialects/registry.h"
#include "server/calls/status_map.h"

namespace topk {

grpc::ByteBuffer ManyRequest::Write(
    std::shared_ptr<v1::TopKResponse> response) {
  v1::TopKResult result;
  result.set_request_id(response->request_id());
  *result.mutable_response() = std::move(*response);
  return WriteMessage(std::move(result));
}

void ManyRequest::WriteError(const Status& status) {
  v1::TopKResult result;
  *result.mutable_error() = ToRpcStatus(status);
  // One that is too long is the mistake, and is not echoed.
  if (request().request_id().size() <= kMaxRequestIdBytes) {
    result.set_request_id(request().request_id());
  }
  WriteMessage(std::move(result)).Swap(&response());
}

}  // namespace topk
