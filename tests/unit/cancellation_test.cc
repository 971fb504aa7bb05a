// A cancelled computation returns CANCELLED soon. A computation that finishes
// before it is cancelled returns the usual bytes.
#include "core/base/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/engine.h"
#include "tests/support/compute.h"
#include "tests/support/requests.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using Clock = std::chrono::steady_clock;

enum class Way { kWhole, kPieces, kStream };

// A plan that takes at least several milliseconds, and its kernel.
struct Big {
  const char* name;
  const char* kernel;
  DType type;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  Way way = Way::kWhole;
  bool by_index = false;
  bool strided = false;
};

void PrintTo(const Big& big, std::ostream* out) { *out << big.name; }

v1::TopKRequest RequestOf(const Big& big) {
  const auto type = static_cast<v1::DataType>(big.type);
  if (!big.strided) {
    v1::TopKRequest request = OpenVinoRequest(type, big.shape, big.k, big.axis);
    if (big.by_index) request.mutable_openvino()->set_sort("index");
    return request;
  }
  v1::TopKRequest request = DirectMLRequest(type, big.shape, big.k, big.axis);
  request.mutable_tensor()->add_strides(2 * big.shape[1]);
  request.mutable_tensor()->add_strides(2);
  return request;
}

std::string DataOf(const Big& big) {
  int64_t count = big.strided ? 2 : 1;
  for (const int64_t size : big.shape) count *= size;
  if (big.strided) --count;
  return SomeData(big.type, count, 1);
}

Result<v1::TopKResponse> ComputeBig(const Engine& engine, const Big& big,
                                    const v1::TopKRequest& request,
                                    const std::string& data,
                                    const Cancellation* cancellation) {
  auto rest = std::as_bytes(std::span(data));
  if (big.way == Way::kWhole)
    return Compute(engine, request, std::span(&rest, 1), cancellation);
  std::vector<std::span<const std::byte>> pieces;
  for (; !rest.empty(); rest = rest.subspan(pieces.back().size())) {
    pieces.push_back(rest.first(std::min(rest.size(), size_t{1} << 19)));
  }
  if (big.way == Way::kPieces) {
    return Compute(engine, request, pieces, cancellation);
  }
  auto stream = StartStream(engine, request, cancellation);
  if (!stream.ok()) return stream.status();
  for (const auto& piece : pieces) {
    if (Status s = (*stream)->Feed(piece); !s.ok()) return s;
  }
  return (*stream)->Finish();
}

std::string Bytes(const Result<v1::TopKResponse>& answer) {
  return answer->values().data() + answer->indices().data();
}

class Cancelling : public ::testing::TestWithParam<Big> {};

// The tensors are large, so one test covers a run without cancellation, a
// cancellation before the run, and cancellations at several moments of the run.
TEST_P(Cancelling, EndsSoonOrReturnsTheWholeResult) {
  const Big& big = GetParam();
  const v1::TopKRequest request = RequestOf(big);
  const std::string data = DataOf(big);
  for (const int threads : {1, 3}) {
    const Engine engine({threads, {}});
    const auto begin = Clock::now();
    const auto expected = ComputeBig(engine, big, request, data, nullptr);
    const auto whole = Clock::now() - begin;
    ASSERT_TRUE(expected.ok()) << expected.status().message;
    EXPECT_EQ(expected->execution().kernel().rfind(big.kernel, 0), 0u)
        << expected->execution().kernel();

    Cancellation before;
    before.Cancel();
    EXPECT_EQ(ComputeBig(engine, big, request, data, &before).status().code,
              Code::kCancelled);

    constexpr int kTries = 5;
    for (int i = 0; i < kTries; ++i) {
      Cancellation cancellation;
      std::atomic<bool> begun = false;
      Clock::time_point cancelled;
      std::thread canceller([&] {
        while (!begun) std::this_thread::yield();
        const auto at = Clock::now() + whole * i / kTries;
        while (Clock::now() < at) std::this_thread::yield();
        cancelled = Clock::now();
        cancellation.Cancel();
      });
      begun = true;
      const auto answer = ComputeBig(engine, big, request, data, &cancellation);
      const auto returned = Clock::now();
      canceller.join();
      if (answer.ok()) {
        EXPECT_TRUE(Bytes(answer) == Bytes(expected)) << i;
        continue;
      }
      EXPECT_EQ(answer.status().code, Code::kCancelled);
      EXPECT_EQ(answer.status().reason, "CANCELLED");
      EXPECT_FALSE(answer.status().message.empty());
      // A loose limit for busy machines. topk_bench measures the time.
      EXPECT_LT(returned - cancelled, std::chrono::seconds(5) + 10 * whole)
          << i;
    }
  }
}

std::vector<Big> AllBig() {
  using enum DType;
  using enum Way;
  constexpr int64_t kM = int64_t{1} << 20;
  const auto strided = [](Big big) {
    big.strided = true;
    return big;
  };
  const auto by_index = [](Big big) {
    big.by_index = true;
    return big;
  };
  return {
      {"short_rows", "short-rows", kF32, {10000, 200}, 1, 8},
      {"scan", "scan", kI32, {1, 4 * kM}, 1, 100},
      {"scan_many", "scan", kI32, {1, kM / 4}, 1, 100000},
      {"scan_rows", "scan", kI16, {40, 50000}, 1, 300},
      {"sort", "sort", kF32, {1, kM / 2}, 1, kM / 2},
      by_index({"scan_by_index", "scan", kI64, {1, kM / 4}, 1, kM / 5}),
      {"sort_rows", "sort", kU8, {2000, 200}, 1, 200},
      {"sort_pieces", "sort", kF32, {1, kM / 2}, 1, kM / 2, kPieces},
      {"columns", "columns", kF32, {4, 300, 2000}, 1, 5},
      {"narrow_columns", "columns", kI64, {kM / 2, 3}, 0, 9},
      {"copied", "scan-copied", kI16, {4000, 300}, 0, 50},
      {"copied_blocks", "scan-copied", kI16, {20000, 60}, 0, 50},
      strided({"strided", "scan-copied", kF32, {1, kM}, 1, 100}),
      strided({"strided_stream", "scan-copied", kF32, {1, kM}, 1, 9, kStream}),
      {"packed_short_rows", "short-rows", kU4, {10000, 201}, 1, 8},
      {"packed_scan", "scan", kU6, {1, 2 * kM}, 1, kM / 4},
      {"packed_sort", "sort", kI4, {1, kM / 2}, 1, kM / 2},
      {"packed_columns", "scan-copied", kU3, {4000, 301}, 0, 50},
      {"packed_fold", "fold", kF4E2M1, {1, 4 * kM}, 1, kM / 2, kStream},
      {"fold", "fold", kI32, {1, 4 * kM}, 1, 1000, kStream},
      {"fold_pieces", "fold", kI32, {1, 4 * kM}, 1, 1000, kPieces},
      {"fold_many", "fold", kI32, {1, kM / 2}, 1, 200000, kStream},
      {"fold_columns", "fold", kF32, {20, 20000}, 0, 4, kStream},
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, Cancelling, ::testing::ValuesIn(AllBig()),
                         ::testing::PrintToStringParamName());

TEST(Cancelling, EndsEveryCallOfAStream) {
  const Big big = {"", "fold", DType::kI32, {1, 1000}, 1, 3};
  const std::string data = DataOf(big);
  const auto bytes = std::as_bytes(std::span(data));
  const Engine engine({1, {}});
  for (int calls = 0; calls < 3; ++calls) {
    Cancellation cancellation;
    if (calls == 0) cancellation.Cancel();
    auto stream = StartStream(engine, RequestOf(big), &cancellation);
    if (calls == 0) {
      EXPECT_EQ(stream.status().code, Code::kCancelled);
      continue;
    }
    ASSERT_TRUE(stream.ok());
    if (calls == 1) cancellation.Cancel();
    EXPECT_EQ((*stream)->Feed(bytes).ok(), calls == 2);
    cancellation.Cancel();
    EXPECT_EQ((*stream)->Finish().status().code, Code::kCancelled);
  }
}

}  // namespace
}  // namespace topk::testing
