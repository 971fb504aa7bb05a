#include "tests/unit/run_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

#include "tests/support/compute.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

Outputs Prepare(const Plan& plan, Answer& answer) {
  Outputs outputs;
  if (plan.wants_values) {
    answer.values.assign(static_cast<size_t>(plan.values.bytes), '\0');
    outputs.values = std::as_writable_bytes(std::span(answer.values));
  }
  if (plan.wants_indices) {
    answer.indices.assign(static_cast<size_t>(plan.indices.bytes), '\0');
    outputs.indices = std::as_writable_bytes(std::span(answer.indices));
  }
  return outputs;
}

int64_t Place(const std::vector<int64_t>& at, const Layout& layout) {
  return std::inner_product(at.begin(), at.end(), layout.strides.begin(),
                            int64_t{0});
}

}  // namespace

PlanRequest Ask(DType dtype, std::vector<int64_t> shape, int64_t axis,
                int64_t k) {
  PlanRequest request;
  request.attributes = "onnx";
  request.dtype = dtype;
  request.shape = std::move(shape);
  request.axis = axis;
  request.k = k;
  return request;
}

Plan ValidPlan(const PlanRequest& request) {
  Result<Plan> plan = MakePlan(request, Limits());
  if (!plan.ok()) throw std::runtime_error(plan.status().message);
  return *std::move(plan);
}

Answer RunPlan(const Backend& backend, const Plan& plan,
               const std::string& tensor) {
  Answer answer;
  const Outputs outputs = Prepare(plan, answer);
  answer.kernel = RunWhole(**backend.Prepare(plan),
                           std::as_bytes(std::span(tensor)), outputs)
                      .kernel;
  return answer;
}

Answer FoldPlan(const Backend& backend, const Plan& plan,
                const std::string& tensor,
                const std::function<size_t()>& next) {
  Answer answer;
  const Outputs outputs = Prepare(plan, answer);
  const auto prepared = *backend.Prepare(plan);
  const std::unique_ptr<Fold> fold = *prepared->StartFold(outputs, nullptr);
  auto rest = std::as_bytes(std::span(tensor));
  while (!rest.empty()) {
    // A copy, to detect a fold that keeps a reference to the piece.
    const auto piece = rest.first(std::min(rest.size(), next()));
    const std::vector<std::byte> copy(piece.begin(), piece.end());
    fold->Feed(copy);
    rest = rest.subspan(piece.size());
  }
  answer.kernel = fold->Finish().kernel;
  return answer;
}

Answer SlowAnswer(const Plan& plan, const std::string& tensor) {
  Answer answer;
  Prepare(plan, answer);
  const auto type = static_cast<v1::DataType>(plan.dtype);
  const auto index_type = static_cast<int>(plan.index_type);
  const bool largest = plan.direction == Direction::kLargest;
  const auto axis = static_cast<size_t>(plan.axis);
  const auto n = static_cast<size_t>(plan.shape[axis]);
  std::vector<int64_t> at(plan.shape.size(), 0);
  for (const int64_t size : plan.shape) {
    if (size == 0) return answer;
  }
  for (;;) {  // here, at[axis] == 0
    std::vector<Number> numbers(n);
    std::vector<size_t> places(n);
    for (size_t i = 0; i < n; ++i) {
      at[axis] = static_cast<int64_t>(i);
      places[i] = static_cast<size_t>(Place(at, plan.input));
      numbers[i] = ReadNumber(type, tensor, places[i]);
    }
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const Number& low = numbers[largest ? b : a];
      const Number& high = numbers[largest ? a : b];
      if (low.nan || high.nan) return high.nan && !low.nan;
      return low.value < high.value;
    });
    order.resize(static_cast<size_t>(plan.k));
    if (plan.order == Order::kIndex) std::sort(order.begin(), order.end());
    for (size_t j = 0; j < order.size(); ++j) {
      at[axis] = static_cast<int64_t>(j);
      if (plan.wants_values) {
        WriteBits(type, static_cast<size_t>(Place(at, plan.values)),
                  ReadBits(type, tensor, places[order[j]]), answer.values);
      }
      if (plan.wants_indices) {
        WriteBits(index_type, static_cast<size_t>(Place(at, plan.indices)),
                  static_cast<uint64_t>(plan.index_offset + order[j]),
                  answer.indices);
      }
    }
    at[axis] = 0;
    size_t d = at.size();  // the next slice
    while (d > 0) {
      --d;
      if (d == axis) continue;
      if (++at[d] < plan.shape[d]) break;
      at[d] = 0;
    }
    if (std::all_of(at.begin(), at.end(), [](int64_t a) { return a == 0; })) {
      return answer;
    }
  }
}

std::string SomeData(DType dtype, int64_t count, uint64_t seed,
                     uint64_t distinct) {
  const auto type = static_cast<int>(dtype);
  // Set the unused bits of the last byte.
  std::string data(DataBytes(type, static_cast<size_t>(count)), '\xff');
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    uint64_t bits = random();
    if (distinct > 0) bits %= distinct;
    WriteBits(type, i, bits, data);
  }
  return data;
}

}  // namespace topk::testing
