#include "client/streamed_answer.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

Status Append(std::string_view name, const std::string& data, int64_t limit,
              v1::Tensor& tensor) {
  if (data.empty()) return BadAnswer(name, "a chunk has no bytes");
  const size_t size = tensor.data().size() + data.size();
  if (size > static_cast<size_t>(limit)) {
    return BadAnswer(
        name, StrCat("chunks of ", size, " bytes or more, expected ", limit));
  }
  tensor.mutable_data()->append(data);
  return {};
}

}  // namespace

Status StreamedAnswer::Add(v1::TopKResponseChunk& chunk) {
  if (chunk.has_header() == has_header_ &&
      chunk.content_case() != v1::TopKResponseChunk::CONTENT_NOT_SET) {
    return BadAnswer("", has_header_ ? "a second header"
                                     : "a chunk arrived before the header");
  }
  switch (chunk.content_case()) {
    case v1::TopKResponseChunk::kHeader:
      return AddHeader(*chunk.mutable_header());
    case v1::TopKResponseChunk::kValues:
      return Append("response.values.data", chunk.values(),
                    expected_.value_bytes(), *response_.mutable_values());
    case v1::TopKResponseChunk::kIndices:
      return Append("response.indices.data", chunk.indices(),
                    expected_.index_bytes(), *response_.mutable_indices());
    default:
      return BadAnswer("", "an empty message");
  }
}

Status StreamedAnswer::AddHeader(v1::TopKResponse& header) {
  const std::pair<const v1::Tensor&, int64_t> outputs[] = {
      {header.values(), expected_.value_bytes()},
      {header.indices(), expected_.index_bytes()}};
  for (const auto& [tensor, limit] : outputs) {
    if (tensor.data().size() > static_cast<size_t>(limit)) {
      return BadAnswer("", StrCat("a header with ", tensor.data().size(),
                                  " bytes of an output, expected ", limit));
    }
  }
  response_ = std::move(header);
  has_header_ = true;
  return {};
}

bool StreamedAnswer::Clear() {
  response_.Clear();
  return std::exchange(has_header_, false);
}

Result<v1::TopKResponse> StreamedAnswer::Take() {
  if (!has_header_) return BadAnswer("", "the stream ended without a header");
  if (Status s = expected_.Check(response_); !s.ok()) return s;
  return std::move(response_);
}

}  // namespace topk
