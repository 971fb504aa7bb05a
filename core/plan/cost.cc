#include "core/plan/cost.h"

namespace topk {

Size ZeroFillNanoseconds(Size bytes) {
  // A page fault takes 0.7 us, or 0.17 ns per byte; twice that on slower
  // machines.
  return Size::Of(static_cast<double>(bytes.value()) * 0.35);
}

Size CopyNanoseconds(Size bytes) {
  return ZeroFillNanoseconds(bytes) +
         Size::Of(static_cast<double>(bytes.value()) * 0.15);
}

Cost CostOfOutputs(const Plan& plan) {
  constexpr int64_t kEveryRequest = 10'000;  // includes waking threads
  Cost cost;
  cost.input_bytes = plan.input.bytes;
  cost.output_bytes = plan.output_bytes();
  cost.nanoseconds = kEveryRequest + ZeroFillNanoseconds(cost.output_bytes);
  return cost;
}

}  // namespace topk
