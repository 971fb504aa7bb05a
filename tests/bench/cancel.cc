// How long a cancelled computation takes to return: large plans of every
// algorithm, cancelled at a random moment of their run, many times. On a
// shared machine, use one thread and compare the CPU time of the calling
// thread: the rest is waiting for a CPU.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <random>
#include <thread>

#include "core/engine.h"
#include "tests/bench/modes.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

double ProcessorMilliseconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 +
         static_cast<double>(time.tv_nsec) * 1e-6;
}

// How the tensor comes to the engine.
enum class Way { kWhole, kPieces, kStream };

struct Case {
  const char* name;
  const char* type;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  Way way = Way::kWhole;
  bool by_index = false;
  bool strided = false;  // every second element
};

constexpr int64_t kM = int64_t{1} << 20;

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"short rows", "f32", {256 * 1024, 256}, 1, 8},
      {"scan, one row", "f32", {1, 64 * kM}, 1, 100},
      {"scan, one row of bytes", "u8", {1, 256 * kM}, 1, 9 * kM},
      {"scan, rows", "f32", {512, 131072}, 1, 50},
      {"scan, k 1M", "f32", {1, 64 * kM}, 1, kM},
      {"scan, k 24M", "f32", {1, 64 * kM}, 1, 24 * kM},
      {"scan, k 24M, by index",
       "f32",
       {1, 64 * kM},
       1,
       24 * kM,
       Way::kWhole,
       true},
      {"sort, 64M", "f32", {1, 64 * kM}, 1, 64 * kM},
      {"sort, 64M, by index",
       "f32",
       {1, 64 * kM},
       1,
       48 * kM,
       Way::kWhole,
       true},
      {"sort, 64M in pieces", "f32", {1, 64 * kM}, 1, 64 * kM, Way::kPieces},
      {"sort, rows of 64", "f32", {kM, 64}, 1, 64},
      {"sort, 16M of 64 bits", "i64", {1, 16 * kM}, 1, 16 * kM},
      {"columns", "f32", {16, 1000, 64, 64}, 1, 5},
      {"columns, k 32", "f32", {1000, 65536}, 0, 32},
      {"columns, narrow", "f32", {16 * kM, 4}, 0, 10},
      {"transposed", "f16", {16, 1000, 64, 64}, 1, 100},
      {"scan-columns", "f32", {kM, 64}, 0, 100},
      {"scan-columns, k 0.4M", "f32", {kM, 64}, 0, 400000},
      {"scan-columns, wide", "u4", {1000, 131072}, 0, 1},
      {"strided", "f32", {1, 32 * kM}, 1, 100, Way::kWhole, false, true},
      {"strided, in a stream",
       "f32",
       {1, 32 * kM},
       1,
       100,
       Way::kStream,
       false,
       true},
      {"fold, k 100", "f32", {1, 64 * kM}, 1, 100, Way::kStream},
      {"fold, k 8M", "f32", {1, 64 * kM}, 1, 8 * kM, Way::kStream},
      {"fold, 1M columns", "f32", {32, kM}, 0, 4, Way::kStream},
  };
  return cases;
}

v1::TopKRequest RequestOf(const Case& c) {
  v1::TopKRequest request;
  v1::Tensor& tensor = *request.mutable_tensor();
  tensor.set_data_type(static_cast<v1::DataType>(FindDType(c.type)->type));
  tensor.mutable_shape()->Add(c.shape.begin(), c.shape.end());
  if (c.strided) {
    request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
    request.mutable_spec()->set_version(1);
    request.mutable_directml()->set_axis(c.axis);
    request.mutable_directml()->set_k(c.k);
    request.mutable_directml()->set_axis_direction(
        v1::AXIS_DIRECTION_DECREASING);
    tensor.add_strides(2 * c.shape[1]);
    tensor.add_strides(2);
  } else {
    request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
    request.mutable_spec()->set_version(11);
    request.mutable_openvino()->set_axis(c.axis);
    request.mutable_openvino()->set_mode("max");
    request.mutable_openvino()->set_sort(c.by_index ? "index" : "value");
    request.mutable_openvino()->set_index_element_type("i64");
    request.mutable_openvino()->mutable_k()->set_value(c.k);
  }
  return request;
}

std::vector<std::byte> DataOf(const Case& c) {
  int64_t bytes = FindDType(c.type)->bytes;
  for (const int64_t size : c.shape) bytes *= size;
  if (c.strided) bytes = 2 * bytes - FindDType(c.type)->bytes;
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    // Of no type many with the greatest key, with which a scan would end.
    const uint64_t bits = random() & 0x3FFFFFFF3FFFFFFF;
    std::memcpy(data.data() + i, &bits, sizeof(bits));
  }
  return data;
}

std::vector<std::span<const std::byte>> Cut(std::span<const std::byte> data) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::span<const std::byte>> pieces;
  for (; !data.empty(); data = data.subspan(pieces.back().size())) {
    pieces.push_back(data.first(std::min(kPiece, data.size())));
  }
  return pieces;
}

Result<v1::TopKResponse> Compute(const Engine& engine, Way way,
                                 const v1::TopKRequest& request,
                                 std::span<const std::byte> data,
                                 const Cancellation& cancellation) {
  if (way == Way::kWhole) {
    return testing::Compute(engine, request, std::span(&data, 1),
                            &cancellation);
  }
  if (way == Way::kPieces)
    return testing::Compute(engine, request, Cut(data), &cancellation);
  Result<TensorStream> stream =
      testing::StartStream(engine, request, &cancellation);
  if (!stream.ok()) return stream.status();
  for (const auto& piece : Cut(data)) {
    if (Status s = stream->Feed(piece); !s.ok()) return s;
  }
  return stream->Finish();
}

}  // namespace

int MeasureCancellation(int threads, double seconds) {
  const Engine engine({threads, {}});
  std::cout << "from Cancel() to the return, milliseconds, " << threads
            << " thread(s)\n"
            << std::left << std::setw(26) << "plan" << std::setw(20) << "kernel"
            << std::right << std::setw(10) << "whole run" << std::setw(8)
            << "tries" << std::setw(10) << "median" << std::setw(10) << "p99"
            << std::setw(10) << "max" << std::setw(12) << "processor"
            << std::endl;
  std::mt19937_64 random(1);
  double worst = 0;
  for (const Case& c : Cases()) {
    const v1::TopKRequest request = RequestOf(c);
    const std::vector<std::byte> data = DataOf(c);
    Clock::time_point start = Clock::now();
    const auto answer = Compute(engine, c.way, request, data, Cancellation());
    const double whole = MillisecondsSince(start);
    if (!answer.ok()) throw std::runtime_error(answer.status().message);
    const std::string kernel = answer->execution().kernel();
    std::vector<double> latencies;
    double most_processor = 0;
    for (start = Clock::now(); MillisecondsSince(start) < seconds * 1e3;) {
      Cancellation cancellation;
      Clock::time_point returned;
      double processor = 0;
      bool was_cancelled = false;
      std::promise<void> begun;
      std::promise<void> ended;
      std::thread computing([&] {
        begun.set_value();
        const auto result = Compute(engine, c.way, request, data, cancellation);
        returned = Clock::now();
        was_cancelled = !result.ok();
        processor += ProcessorMilliseconds(CLOCK_THREAD_CPUTIME_ID);
        ended.get_future().wait();  // so that its clock can still be read
      });
      clockid_t clock;
      pthread_getcpuclockid(computing.native_handle(), &clock);
      begun.get_future().wait();
      const double wait = std::uniform_real_distribution(0.0, whole)(random);
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(wait));
      const Clock::time_point at = Clock::now();
      const double processor_at = ProcessorMilliseconds(clock);
      cancellation.Cancel();
      ended.set_value();
      computing.join();
      if (!was_cancelled) continue;  // it was done before
      most_processor = std::max(most_processor, processor - processor_at);
      latencies.push_back(
          std::chrono::duration<double, std::milli>(returned - at).count());
    }
    std::sort(latencies.begin(), latencies.end());
    const auto of = [&](double part) {
      return latencies.empty()
                 ? 0
                 : latencies[static_cast<size_t>(
                       part * static_cast<double>(latencies.size() - 1))];
    };
    worst = std::max(worst, most_processor);
    std::cout << std::left << std::setw(26) << c.name << std::setw(20) << kernel
              << std::right << std::fixed << std::setprecision(1)
              << std::setw(10) << whole << std::setw(8) << latencies.size()
              << std::setprecision(3) << std::setw(10) << of(0.5)
              << std::setw(10) << of(0.99) << std::setw(10) << of(1)
              << std::setw(12) << most_processor << std::endl;
  }
  std::cout << "at worst " << worst << " ms of CPU time\n";
  return 0;
}

}  // namespace topk::bench
