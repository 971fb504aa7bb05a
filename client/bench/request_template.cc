#include "client/bench/request_template.h"

#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// A message must be smaller than 2 GiB. 1 MiB is reserved for fields other than
// the tensor.
constexpr int64_t kMaxMessageTensorBytes = (int64_t{2} << 30) - (1 << 20);
// Limits memory use: one batch of each kind of request stays in memory.
constexpr int64_t kMaxBatchBytes = int64_t{4} << 30;

std::string RandomData(const DTypeInfo& type, int64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto width = static_cast<size_t>(type.bytes);
  std::string data(static_cast<size_t>(bytes), '\0');
  for (size_t at = 0; at < data.size(); at += width) {
    uint64_t bits = random();
    if (type.is_float) {
      const double value = static_cast<double>(bits >> 11) * 0x1p-53;
      const auto single = static_cast<float>(value);
      uint32_t single_bits;
      std::memcpy(&single_bits, &single, 4);
      switch (type.type) {
        case DType::kF64:
          std::memcpy(&bits, &value, 8);
          break;
        case DType::kF32:
          bits = single_bits;
          break;
        case DType::kBF16:
          bits = single_bits >> 16;
          break;
        default:  // a finite number >= 0, or any bits for packed types
          if (!type.packed()) bits %= type.infinity;
      }
    }
    std::memcpy(data.data() + at, &bits, width);
  }
  return data;
}

}  // namespace

Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            bool separate_tensor, int64_t batch,
                                            uint64_t seed) {
  const DTypeInfo& type = *FindDType(spec.dtype);
  const int64_t most = separate_tensor ? std::numeric_limits<int64_t>::max()
                                       : kMaxMessageTensorBytes;
  int64_t count = 1;
  int64_t bytes = 0;
  for (const int64_t size : spec.shape) {
    if (size < 0 || !CheckedMultiply(count, size, &count) ||
        !CheckedBytes(type, count, &bytes) || bytes > most) {
      return InvalidArgument(
          "SHAPE", "shape",
          StrCat(spec.origin, ": must have sizes >= 0 and at most ", most,
                 " bytes",
                 separate_tensor ? ""
                                 : ", because the tensor must fit in one "
                                   "message; --path stream has no such limit"));
    }
  }
  if (bytes > kMaxBatchBytes / batch && batch > 1) {
    return InvalidArgument(
        "BATCH", "batch",
        StrCat(spec.origin, ": a --batch of ", batch, " tensors of ", bytes,
               " bytes exceeds the limit of ", kMaxBatchBytes, " bytes"));
  }
  Result<v1::TopKRequest> request = MakeRequest(
      spec.operation, static_cast<v1::DataType>(type.type), spec.shape);
  if (!request.ok()) return request.status();
  RequestTemplate kind;
  kind.name = spec.Name();
  kind.weight = spec.weight;
  std::string data = RandomData(type, bytes, seed);
  if (separate_tensor) {
    kind.tensor = std::move(data);
  } else {
    request->mutable_tensor()->set_data(std::move(data));
  }
  kind.request_bytes =
      static_cast<int64_t>(request->ByteSizeLong() + kind.tensor.size());
  kind.requests.assign(static_cast<size_t>(batch), *request);
  return kind;
}

Status SetExpected(const Engine& engine, RequestTemplate& kind) {
  const v1::TopKRequest& request = kind.requests.front();
  const std::string& data =
      kind.tensor.empty() ? request.tensor().data() : kind.tensor;
  Result<v1::TopKResponse> answer =
      engine.Compute(request, std::as_bytes(std::span(data)));
  if (!answer.ok()) return answer.status();
  kind.expected = *std::move(answer);
  return {};
}

}  // namespace topk::cli
