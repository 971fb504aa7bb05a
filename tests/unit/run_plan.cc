#include "tests/unit/run_plan.h"

#include <memory>
#include <random>
#include <stdexcept>

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
               const std::string& tensor, const Cancellation* cancellation) {
  Answer answer;
  const Outputs outputs = Prepare(plan, answer);
  answer.kernel =
      RunWhole(*backend.Prepare(plan, Arrival::kWhole),
               std::as_bytes(std::span(tensor)), outputs, cancellation)
          .kernel;
  return answer;
}

Answer FoldPlan(const Backend& backend, const Plan& plan,
                const std::string& tensor, const NextPiece& next,
                const Cancellation* cancellation) {
  Answer answer;
  const Outputs outputs = Prepare(plan, answer);
  auto prepared = backend.Prepare(plan, Arrival::kStream);
  if (prepared == nullptr) {  // the stream would need much device memory
    prepared = backend.Prepare(plan, Arrival::kChunks);
  }
  const std::unique_ptr<Fold> fold =
      *prepared->StartFold(outputs, cancellation);
  FoldInPieces(tensor, next, *fold);
  answer.kernel = fold->Finish().kernel;
  return answer;
}

Answer SlowAnswer(const Plan& plan, const std::string& tensor) {
  Answer answer;
  Prepare(plan, answer);
  Select({.type = static_cast<v1::DataType>(plan.dtype),
          .index_type = static_cast<v1::DataType>(plan.index_type),
          .shape = plan.shape,
          .strides = plan.input.strides,
          .value_strides = plan.values.strides,
          .index_strides = plan.indices.strides,
          .axis = plan.axis,
          .k = plan.k,
          .largest = plan.direction == Direction::kLargest,
          .by_index = plan.order == Order::kIndex,
          .index_offset = plan.index_offset},
         tensor, plan.wants_values ? &answer.values : nullptr,
         plan.wants_indices ? &answer.indices : nullptr);
  return answer;
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
