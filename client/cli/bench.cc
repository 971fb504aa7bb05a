#include "client/cli/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A message is below 2 GiB, and has a little beside its tensor.
constexpr int64_t kMaxTensorBytes = (int64_t{2} << 30) - (1 << 20);

// Random numbers of the type: floats from 0 to 1, integers of any bits.
std::string RandomData(const DTypeInfo& type, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto width = static_cast<size_t>(type.bytes);
  std::string data(static_cast<size_t>(count) * width, '\0');
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
        default:  // f16: any finite value >= 0
          bits %= type.infinity;
      }
    }
    std::memcpy(data.data() + at, &bits, width);
  }
  return data;
}

// What the threads share.
struct Shared {
  std::atomic<int64_t> left;  // requests not yet begun
  Clock::time_point end;
  std::mutex mutex;
  std::vector<double> seconds;  // a latency for each answer
  Status error;
  bool wrong = false;
};

void Load(const Client& client, const v1::TopKRequest& request,
          const v1::TopKResponse& expected, Shared& shared) {
  std::vector<double> seconds;
  Status error;
  bool wrong = false;
  // At least one each, however late the thread begins.
  while (!wrong && error.ok() && shared.left.fetch_sub(1) > 0 &&
         (seconds.empty() || Clock::now() < shared.end)) {
    const Clock::time_point start = Clock::now();
    const Result<v1::TopKResponse> answer = client.ComputeTopK(request);
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
    if (!answer.ok()) {
      error = answer.status();
    } else {
      wrong = answer->values().data() != expected.values().data() ||
              answer->indices().data() != expected.indices().data();
    }
  }
  const std::lock_guard lock(shared.mutex);
  shared.seconds.insert(shared.seconds.end(), seconds.begin(), seconds.end());
  shared.wrong |= wrong;
  if (!error.ok()) shared.error = error;
  if (wrong || !error.ok()) shared.left = 0;  // one failure ends the run
}

double Percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(
      std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void PrintResult(const BenchFlags& flags, std::vector<double> latencies,
                 double elapsed, size_t request_bytes) {
  std::sort(latencies.begin(), latencies.end());
  const auto count = static_cast<double>(latencies.size());
  const double rate = count / elapsed;
  const double gigabytes = rate * static_cast<double>(request_bytes) / 1e9;
  nlohmann::ordered_json json = {{"requests", latencies.size()},
                                 {"concurrency", flags.concurrency},
                                 {"seconds", elapsed},
                                 {"request_bytes", request_bytes},
                                 {"requests_per_second", rate},
                                 {"gigabytes_per_second", gigabytes},
                                 {"p50_us", Percentile(latencies, 0.5) * 1e6},
                                 {"p90_us", Percentile(latencies, 0.9) * 1e6},
                                 {"p99_us", Percentile(latencies, 0.99) * 1e6},
                                 {"max_us", latencies.back() * 1e6}};
  if (flags.json) {
    std::cout << json.dump() << "\n";
    return;
  }
  std::cout << std::fixed << std::setprecision(0) << latencies.size()
            << " requests of " << request_bytes << " bytes, "
            << flags.concurrency << " at a time, all answers verified\n"
            << rate << " requests/s, " << std::setprecision(3) << gigabytes
            << " GB/s\nlatency us: p50 " << std::setprecision(0)
            << double{json["p50_us"]} << ", p90 " << double{json["p90_us"]}
            << ", p99 " << double{json["p99_us"]} << ", max "
            << double{json["max_us"]} << "\n";
}

}  // namespace

ExitCode Bench(const BenchFlags& flags) {
  const DTypeInfo& type = *FindDType(flags.dtype);
  int64_t bytes = type.bytes;
  for (const int64_t size : flags.shape) {
    if (size < 0 || !CheckedMultiply(bytes, size, &bytes) ||
        bytes > kMaxTensorBytes) {
      std::cerr << "topk: --shape must have sizes >= 0 and at most "
                << kMaxTensorBytes << " bytes, as one message has to hold it\n";
      return kUsage;
    }
  }
  Result<v1::TopKRequest> request = MakeRequest(
      flags.operation, static_cast<v1::DataType>(type.type), flags.shape);
  if (!request.ok()) {
    std::cerr << "topk: " << request.status().message << "\n";
    return kUsage;
  }
  request->mutable_tensor()->set_data(
      RandomData(type, bytes / type.bytes, flags.seed));
  const Result<v1::TopKResponse> expected = Engine({}).Compute(*request);
  if (!expected.ok()) return Report(expected.status());

  const Client client(flags.client);
  if (const auto warm = client.ComputeTopK(*request); !warm.ok()) {
    return Report(warm.status(), request->request_id());
  }
  Shared shared;
  const Clock::time_point start = Clock::now();
  shared.left =
      flags.requests > 0 ? flags.requests : std::numeric_limits<int64_t>::max();
  shared.end = flags.requests > 0
                   ? Clock::time_point::max()
                   : start + std::chrono::microseconds(
                                 static_cast<int64_t>(flags.seconds * 1e6));
  std::vector<std::thread> threads;
  for (int i = 0; i < flags.concurrency; ++i) {
    threads.emplace_back(Load, std::cref(client), std::cref(*request),
                         std::cref(*expected), std::ref(shared));
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed =
      std::chrono::duration<double>(Clock::now() - start).count();
  if (!shared.error.ok()) {
    return Report(shared.error, request->request_id());
  }
  if (shared.wrong) {
    std::cerr << "topk: an answer differs from the one computed here\n";
    return kWrongAnswer;
  }
  PrintResult(flags, std::move(shared.seconds), elapsed,
              request->ByteSizeLong());
  return kOk;
}

}  // namespace topk::cli
