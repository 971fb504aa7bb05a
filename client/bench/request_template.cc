#include "client/bench/request_template.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "client/borrowed_buffers.h"
#include "client/cli/interrupts.h"
#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/common/message_pieces.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// A message must be smaller than 2 GiB. 1 MiB is reserved for fields other than
// the tensor.
constexpr int64_t kMaxMessageTensorBytes = (int64_t{2} << 30) - (1 << 20);
constexpr size_t kChunkBytes = size_t{1} << 20;

std::string RandomData(const DTypeInfo& type, int64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto width = static_cast<size_t>(type.bytes);
  std::string data(static_cast<size_t>(bytes), '\0');
  for (size_t at = 0; at < data.size(); at += width) {
    uint64_t bits = random();
    if (type.is_float && !type.packed()) bits %= type.infinity;
    std::memcpy(data.data() + at, &bits, width);
  }
  return data;
}

}  // namespace

Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            const BenchPath& path,
                                            uint64_t seed) {
  const DTypeInfo& type = *FindDType(spec.dtype);
  const int64_t most = path.in_one_message()
                           ? kMaxMessageTensorBytes
                           : std::numeric_limits<int64_t>::max();
  int64_t count = 1;
  int64_t bytes = 0;
  for (const int64_t size : spec.shape) {
    if (size < 0 || !CheckedMultiply(count, size, &count) ||
        !CheckedBytes(type, count, &bytes) || bytes > most) {
      return InvalidArgument(
          "SHAPE", "shape",
          StrCat("--shape: must have sizes >= 0 and at most ", most, " bytes",
                 path.in_one_message()
                     ? ", because the tensor must fit in one message; --path "
                       "stream has no such limit"
                     : ""));
    }
  }
  Result<v1::TopKRequest> request = MakeRequest(
      spec.operation, static_cast<v1::DataType>(type.type), spec.shape);
  if (!request.ok()) return request.status();
  RequestTemplate made;
  made.request = *std::move(request);
  if (spec.input) {
    made.tensor = *spec.input;
  } else {
    const auto data =
        std::make_shared<std::string>(RandomData(type, bytes, seed));
    made.tensor = {type.type, spec.shape, std::as_bytes(std::span(*data)),
                   data};
  }
  return made;
}

Status SerializeMessages(const BenchPath& path, int64_t batch, int callers,
                         RequestTemplate& made) {
  const std::span<const std::byte> data = made.tensor.data;
  BorrowedBuffers copies(Memory::kCopied);
  if (path.in_shared_memory) {
    for (int i = 0; i < callers; ++i) {
      Result<SharedMemory> region = CreateShared(data.size());
      if (!region.ok()) return region.status();
      std::ranges::copy(data, region->data().begin());
      v1::TopKRequest message = made.request;
      *message.mutable_tensor()->mutable_shared_memory() =
          region->Region(0, data.size());
      made.messages.push_back(copies.Wrap(PiecesOf(message)));
      made.regions.push_back(*std::move(region));
    }
  } else if (path.method == Method::kStreamTopK) {
    v1::TopKRequestChunk header;
    *header.mutable_header() = made.request;
    made.messages.push_back(copies.Wrap(PiecesOf(header)));
    for (size_t at = 0; at < data.size(); at += kChunkBytes) {
      made.messages.push_back(copies.Wrap(
          PiecesOf(v1::TopKRequestChunk::kDataFieldNumber,
                   data.subspan(at, std::min(kChunkBytes, data.size() - at)))));
    }
  } else {
    made.messages.assign(static_cast<size_t>(batch),
                         copies.Wrap(PiecesOf(made.request, data)));
  }
  return {};
}

Status SetExpected(const Engine& engine, RequestTemplate& made) {
  Result<v1::TopKResponse> answer =
      engine.Compute(made.request, made.tensor.data);
  if (!answer.ok()) return answer.status();
  made.expected = *std::move(answer);
  return {};
}

}  // namespace topk::cli
