#include "tests/bench/workload.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace topk::bench {
namespace {

// Returns the value of element `i`. Random values are normally distributed.
double Number(const std::string& data, int64_t i, std::mt19937_64& random,
              std::normal_distribution<double>& normal) {
  if (data == "normal") return normal(random);
  if (data == "ascending") return static_cast<double>(i);
  if (data == "constant") return 1;
  if (data == "zeros") return random() % 10 == 0 ? normal(random) : 0;
  throw std::runtime_error("no such data: " + data);
}

uint64_t Bits(const DTypeInfo& type, double x) {
  const auto f = static_cast<float>(x);
  switch (type.type) {
    case DType::kF16:
      return std::bit_cast<uint16_t>(static_cast<_Float16>(f));
    case DType::kBF16:  // the upper half of an f32
      return std::bit_cast<uint32_t>(f) >> 16;
    case DType::kF32:
      return std::bit_cast<uint32_t>(f);
    case DType::kF64:
      return std::bit_cast<uint64_t>(x);
    default:
      break;
  }
  // Scale integers so that the range of the type is 16 standard deviations.
  const double scale = std::ldexp(1.0, 8 * type.bytes - 4);
  const double limit = std::ldexp(1.0, 8 * type.bytes - 1) * 0.999;
  const auto value =
      static_cast<int64_t>(std::max(-limit, std::min(limit, x * scale)));
  // Zero is the middle of signed types. For unsigned types, flip the sign bit.
  const uint64_t middle =
      type.sign == 0 ? uint64_t{1} << (8 * type.bytes - 1) : 0;
  return static_cast<uint64_t>(value) ^ middle;
}

}  // namespace

Workload ParseWorkload(const std::string& line) {
  Workload workload;
  PlanRequest& request = workload.request;
  request.attributes = "onnx";
  std::istringstream in(line);
  std::string type;
  std::string direction;
  char bar = 0;
  in >> workload.name >> bar >> type;
  for (char separator = 0; in >> separator && separator != ']';) {
    in >> request.shape.emplace_back();
  }
  in >> bar >> request.axis >> bar >> request.k >> bar >> direction >> bar >>
      workload.data;
  const DTypeInfo* info = FindDType(type);
  if (!in || info == nullptr ||
      (direction != "largest" && direction != "smallest")) {
    throw std::runtime_error("not a workload: " + line);
  }
  request.dtype = info->type;
  request.direction =
      direction == "largest" ? Direction::kLargest : Direction::kSmallest;
  workload.plan();
  return workload;
}

Plan Workload::plan() const {
  Result<Plan> plan = MakePlan(request, Limits());
  if (!plan.ok()) throw std::runtime_error(name + ": " + plan.status().message);
  return *std::move(plan);
}

std::vector<Workload> ReadWorkloads(const std::string& path) {
  std::ifstream in(path);
  std::vector<Workload> workloads;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    workloads.push_back(ParseWorkload(line));
  }
  if (workloads.empty()) throw std::runtime_error("no workloads in " + path);
  return workloads;
}

std::vector<std::byte> MakeData(const Workload& workload, uint64_t seed) {
  const Plan plan = workload.plan();
  const DTypeInfo& type = InfoOf(plan.dtype);
  std::vector<std::byte> data(static_cast<size_t>(plan.input.bytes));
  std::mt19937_64 random(seed);
  if (type.bytes == 1 && workload.data == "normal") {  // uniform
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    return data;
  }
  std::normal_distribution<double> normal;
  const auto bytes = static_cast<size_t>(type.bytes);
  for (size_t i = 0; i < data.size() / bytes; ++i) {
    const uint64_t bits = Bits(
        type, Number(workload.data, static_cast<int64_t>(i), random, normal));
    std::memcpy(&data[i * bytes], &bits, bytes);
  }
  return data;
}

}  // namespace topk::bench
