#include "client/bench/request_template.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "client/cli/interrupts.h"
#include "client/client_call.h"
#include "core/base/checked.h"
#include "core/base/text.h"
#include "core/common/message_pieces.h"

namespace topk::cli {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

}  // namespace

Result<v1::Tensor> RandomTensor(const DTypeInfo& type,
                                const std::vector<int64_t>& shape,
                                int64_t max_bytes, uint64_t seed) {
  v1::Tensor tensor;
  tensor.set_data_type(static_cast<v1::DataType>(type.type));
  int64_t count = 1;
  int64_t bytes = 0;
  for (const int64_t size : shape) {
    tensor.add_shape(size);
    if (size < 0 || !CheckedMultiply(count, size, &count) ||
        !CheckedBytes(type, count, &bytes) || bytes > max_bytes) {
      return InvalidArgument(
          "SHAPE", "shape",
          StrCat("--shape: must have sizes >= 0 and at most ", max_bytes,
                 " bytes; --path stream has no such limit"));
    }
  }
  std::string& data = *tensor.mutable_data();
  data.resize(static_cast<size_t>(bytes));
  std::mt19937_64 random(seed);
  const auto width = static_cast<size_t>(type.bytes);
  for (size_t at = 0; at < data.size(); at += width) {
    uint64_t bits = random();
    if (type.is_float && !type.packed()) bits %= type.infinity;
    std::memcpy(data.data() + at, &bits, width);
  }
  return tensor;
}

Status SerializeMessages(const BenchPath& path, int64_t batch, int callers,
                         RequestTemplate& made) {
  const auto data = std::as_bytes(std::span(made.tensor.data()));
  if (path.in_shared_memory) {
    // Each caller has its own memory pages.
    const size_t step = (data.size() / kPageBytes + 1) * kPageBytes;
    Result<SharedMemory> memory =
        CreateShared(step * static_cast<size_t>(callers));
    if (!memory.ok()) return memory.status();
    for (size_t i = 0; i < static_cast<size_t>(callers); ++i) {
      std::ranges::copy(data, memory->data().subspan(i * step).begin());
      v1::TopKRequest message = made.request;
      *message.mutable_tensor()->mutable_shared_memory() =
          memory->Region(i * step, data.size());
      made.messages.push_back(BufferOf(PiecesOf(message)));
    }
    made.memory = *std::move(memory);
  } else if (path.method == kStreamTopK) {
    v1::TopKRequestChunk header;
    *header.mutable_header() = made.request;
    made.messages.push_back(BufferOf(PiecesOf(header)));
    for (size_t at = 0; at < data.size(); at += kChunkBytes) {
      made.messages.push_back(BufferOf(
          PiecesOf(v1::TopKRequestChunk::kDataFieldNumber,
                   data.subspan(at, std::min(kChunkBytes, data.size() - at)))));
    }
  } else {
    made.messages.assign(static_cast<size_t>(batch),
                         BufferOf(PiecesOf(made.request, data)));
  }
  return {};
}

}  // namespace topk::cli
