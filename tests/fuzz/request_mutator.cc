// Adds a mutation to those of libFuzzer: changes a field of the request, and
// often resizes the data to fit the new shape.

#include <string>

#include "core/dialects/registry.h"
#include "tests/support/generators.h"
#include "tests/support/quiet_protobuf.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned seed) {
  static const topk::testing::QuietProtobuf quiet;
  topk::testing::Random random(seed);
  topk::v1::TopKRequest request;
  if (random() % 2 == 0 ||
      !request.ParseFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  topk::testing::Corrupt(random, request);
  const auto most = static_cast<int64_t>(max_size);
  const topk::Result<topk::Plan> plan = topk::Lower(request, {4096, 1 << 16});
  if (random() % 2 == 0 && plan.ok() && plan->input.bytes < most) {
    request.mutable_tensor()->mutable_data()->resize(
        static_cast<size_t>(plan->input.bytes));
  }
  const std::string bytes = request.SerializeAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  bytes.copy(reinterpret_cast<char*>(data), bytes.size());
  return bytes.size();
}
