// A computation that is cancelled returns CANCELLED, and soon; one that is not
// gives the bytes that it gives without a cancellation.
#include "core/base/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "core/engine.h"
#include "tests/support/generators.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using Clock = std::chrono::steady_clock;

enum class Way { kWhole, kPieces, kStream };

// A plan that takes some milliseconds at least, and the kernel that is meant.
struct Big {
  const char* name;
  const char* kernel;
  v1::DataType type;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  Way way = Way::kWhole;
  bool by_index = false;
  bool strided = false;
};

void PrintTo(const Big& big, std::ostream* out) { *out << big.name; }

v1::TopKRequest RequestOf(const Big& big) {
  v1::TopKRequest request;
  v1::Tensor& tensor = *request.mutable_tensor();
  tensor.set_data_type(big.type);
  tensor.mutable_shape()->Add(big.shape.begin(), big.shape.end());
  if (big.strided) {
    request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
    request.mutable_directml()->set_axis(big.axis);
    request.mutable_directml()->set_k(big.k);
    for (int i = 0; i < 2; ++i)
      tensor.add_strides(2 * (i == 0 ? big.shape[1] : 1));
  } else {
    request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
    request.mutable_spec()->set_version(11);
    request.mutable_openvino()->set_axis(big.axis);
    request.mutable_openvino()->set_mode("max");
    request.mutable_openvino()->set_sort(big.by_index ? "index" : "value");
    request.mutable_openvino()->mutable_k()->set_value(big.k);
  }
  return request;
}

std::string DataOf(const Big& big) {
  int64_t count = big.strided ? 2 : 1;
  for (const int64_t size : big.shape) count *= size;
  if (big.strided) --count;
  return SomeData(static_cast<DType>(big.type), count, 1);
}

Result<v1::TopKResponse> Compute(const Engine& engine, const Big& big,
                                 const v1::TopKRequest& request,
                                 const std::string& data,
                                 const Cancellation* cancellation) {
  auto rest = std::as_bytes(std::span(data));
  if (big.way == Way::kWhole)
    return engine.Compute(request, rest, cancellation);
  std::vector<std::span<const std::byte>> pieces;
  for (; !rest.empty(); rest = rest.subspan(pieces.back().size())) {
    pieces.push_back(rest.first(std::min(rest.size(), size_t{1} << 19)));
  }
  if (big.way == Way::kPieces) {
    return engine.Compute(request, pieces, cancellation);
  }
  Result<TensorStream> stream =
      TensorStream::Start(engine, request, cancellation);
  if (!stream.ok()) return stream.status();
  for (const auto& piece : pieces) {
    if (Status s = stream->Feed(piece); !s.ok()) return s;
  }
  return stream->Finish();
}

std::string Bytes(const Result<v1::TopKResponse>& answer) {
  return answer->values().data() + answer->indices().data();
}

class Cancelling : public ::testing::TestWithParam<Big> {};

// One test, because the tensors are large: never cancelled, cancelled before
// the run, and cancelled at moments all over the run.
TEST_P(Cancelling, EndsSoonOrReturnsTheWholeResult) {
  const Big& big = GetParam();
  const v1::TopKRequest request = RequestOf(big);
  const std::string data = DataOf(big);
  for (const int threads : {1, 3}) {
    const Engine engine({threads, {}});
    const auto begin = Clock::now();
    const auto expected = Compute(engine, big, request, data, nullptr);
    const auto whole = Clock::now() - begin;
    ASSERT_TRUE(expected.ok()) << expected.status().message;
    EXPECT_EQ(expected->execution().kernel().rfind(big.kernel, 0), 0u)
        << expected->execution().kernel();

    Cancellation before;
    before.Cancel();
    EXPECT_EQ(Compute(engine, big, request, data, &before).status().code,
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
      const auto answer = Compute(engine, big, request, data, &cancellation);
      const auto returned = Clock::now();
      canceller.join();
      if (answer.ok()) {
        EXPECT_TRUE(Bytes(answer) == Bytes(expected)) << i;
        continue;
      }
      EXPECT_EQ(answer.status().code, Code::kCancelled);
      EXPECT_EQ(answer.status().reason, "CANCELLED");
      EXPECT_FALSE(answer.status().message.empty());
      // Sanitizers and other programs need theirs; topk_bench measures it.
      EXPECT_LT(returned - cancelled, std::chrono::seconds(5)) << i;
    }
  }
}

constexpr int64_t kM = int64_t{1} << 20;

INSTANTIATE_TEST_SUITE_P(
    Plans, Cancelling,
    ::testing::Values(
        Big{"short_rows", "short-rows", v1::DATA_TYPE_F32, {10000, 200}, 1, 8},
        Big{"scan", "scan", v1::DATA_TYPE_I32, {1, 4 * kM}, 1, 100},
        Big{"scan_many", "scan", v1::DATA_TYPE_I32, {1, kM / 4}, 1, 100000},
        Big{"scan_rows", "scan", v1::DATA_TYPE_I16, {40, 50000}, 1, 300},
        Big{"sort", "sort", v1::DATA_TYPE_F32, {1, kM / 2}, 1, kM / 2},
        Big{"sort_by_index",
            "sort",
            v1::DATA_TYPE_I64,
            {1, kM / 4},
            1,
            kM / 5,
            Way::kWhole,
            true},
        Big{"sort_rows", "sort", v1::DATA_TYPE_U8, {2000, 200}, 1, 200},
        Big{"sort_pieces",
            "sort",
            v1::DATA_TYPE_F32,
            {1, kM / 2},
            1,
            kM / 2,
            Way::kPieces},
        Big{"columns", "columns", v1::DATA_TYPE_F32, {4, 300, 2000}, 1, 5},
        Big{"narrow_columns", "columns", v1::DATA_TYPE_I64, {kM / 2, 3}, 0, 9},
        Big{"copied", "scan-copied", v1::DATA_TYPE_I16, {4000, 300}, 0, 50},
        Big{"copied_blocks",
            "scan-copied",
            v1::DATA_TYPE_I16,
            {20000, 60},
            0,
            50},
        Big{"strided",
            "scan-copied",
            v1::DATA_TYPE_F32,
            {1, kM},
            1,
            100,
            Way::kWhole,
            false,
            true},
        Big{"strided_stream",
            "scan-copied",
            v1::DATA_TYPE_F32,
            {1, kM},
            1,
            9,
            Way::kStream,
            false,
            true},
        Big{"packed_short_rows",
            "short-rows",
            v1::DATA_TYPE_U4,
            {10000, 201},
            1,
            8},
        Big{"packed_scan", "scan", v1::DATA_TYPE_U6, {1, 2 * kM}, 1, kM / 4},
        Big{"packed_sort", "sort", v1::DATA_TYPE_I4, {1, kM / 2}, 1, kM / 2},
        Big{"packed_columns",
            "scan-copied",
            v1::DATA_TYPE_U3,
            {4000, 301},
            0,
            50},
        Big{"packed_fold",
            "fold",
            v1::DATA_TYPE_F4E2M1,
            {1, 4 * kM},
            1,
            kM / 2,
            Way::kStream},
        Big{"fold",
            "fold",
            v1::DATA_TYPE_I32,
            {1, 4 * kM},
            1,
            1000,
            Way::kStream},
        Big{"fold_pieces",
            "fold",
            v1::DATA_TYPE_I32,
            {1, 4 * kM},
            1,
            1000,
            Way::kPieces},
        Big{"fold_many",
            "fold",
            v1::DATA_TYPE_I32,
            {1, kM / 2},
            1,
            200000,
            Way::kStream},
        Big{"fold_columns",
            "fold",
            v1::DATA_TYPE_F32,
            {20, 20000},
            0,
            4,
            Way::kStream}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(Cancelling, EndsEveryCallOfAStream) {
  const Big big = {"", "fold", v1::DATA_TYPE_I32, {1, 1000}, 1, 3};
  const std::string data = DataOf(big);
  const auto bytes = std::as_bytes(std::span(data));
  const Engine engine({1, {}});
  for (int calls = 0; calls < 3; ++calls) {
    Cancellation cancellation;
    if (calls == 0) cancellation.Cancel();
    auto stream = TensorStream::Start(engine, RequestOf(big), &cancellation);
    if (calls == 0) {
      EXPECT_EQ(stream.status().code, Code::kCancelled);
      continue;
    }
    ASSERT_TRUE(stream.ok());
    if (calls == 1) cancellation.Cancel();
    EXPECT_EQ(stream->Feed(bytes).ok(), calls == 2);
    cancellation.Cancel();
    EXPECT_EQ(stream->Finish().status().code, Code::kCancelled);
  }
}

}  // namespace
}  // namespace topk::testing
