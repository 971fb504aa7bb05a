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
                                            bool in_one_message, int64_t batch,
                                            uint64_t seed) {
  const DTypeInfo& type = *FindDType(spec.dtype);
  const int64_t most = in_one_message ? kMaxMessageTensorBytes
                                      : std::numeric_limits<int64_t>::max();
  int64_t count = 1;
  int64_t bytes = 0;
  for (const int64_t size : spec.shape) {
    if (size < 0 || !CheckedMultiply(count, size, &count) ||
        !CheckedBytes(type, count, &bytes) || bytes > most) {
      return InvalidArgument(
          "SHAPE", "shape",
          StrCat(spec.origin, ": must have sizes >= 0 and at most ", most,
                 " bytes",
                 in_one_message ? ", because the tensor must fit in one "
                                  "message; --path stream has no such limit"
                                : ""));
    }
  }
  Result<v1::TopKRequest> request = MakeRequest(
      spec.operation, static_cast<v1::DataType>(type.type), spec.shape);
  if (!request.ok()) return request.status();
  RequestTemplate kind;
  kind.name = spec.Name();
  kind.weight = spec.weight;
  kind.tensor = std::make_shared<std::string>(RandomData(type, bytes, seed));
  kind.request_bytes =
      static_cast<int64_t>(request->ByteSizeLong() + kind.tensor->size());
  kind.requests.assign(
      static_cast<size_t>(batch),
      Request(*std::move(request), std::as_bytes(std::span(*kind.tensor))));
  return kind;
}

Status SetExpected(const Engine& engine, RequestTemplate& kind) {
  Result<v1::TopKResponse> answer = engine.Compute(
      kind.requests.front().message(), std::as_bytes(std::span(*kind.tensor)));
  if (!answer.ok()) return answer.status();
  kind.expected = *std::move(answer);
  return {};
}

}  // namespace topk::cli
