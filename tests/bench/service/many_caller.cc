#include <array>
#include <chrono>
#include <future>
#include <semaphore>
#include <stdexcept>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/raw_stream.h"
#include "tests/bench/service/wire.h"

namespace topk::bench {
namespace {

constexpr int64_t kUnderWay = 256;

// With a buffer hint gRPC delays a message until one without the hint: fewer
// system calls. The number of delayed messages must be below the number in
// flight, or both ends would wait.
constexpr int64_t kHeldBack = 16;
static_assert(kHeldBack < kUnderWay);

class RawManyCaller final : public Caller {
 public:
  RawManyCaller(ChannelPtr channel, QuestionPtr question)
      : method_(std::move(channel), "/topk.v1.TopKService/ComputeTopKMany"),
        check_(question),
        request_(RequestBytes(*question)) {}

  double Run(double seconds, std::vector<double>& microseconds) override {
    const auto begin = Clock::now();
    grpc::ClientContext context;
    const auto stream = method_.Open(context);
    std::array<Clock::time_point, kUnderWay> sent;
    std::counting_semaphore<kUnderWay> room(kUnderWay);
    std::future<int64_t> writer = std::async(std::launch::async, [&] {
      int64_t count = 0;
      bool open = true;
      do {
        if (!room.try_acquire_for(std::chrono::minutes(1))) break;
        sent[count % kUnderWay] = Clock::now();
        grpc::WriteOptions options;
        if ((count + 1) % kHeldBack != 0) options.set_buffer_hint();
        open = stream->Write(request_, options);
        ++count;
      } while (open && SecondsSince(begin) < seconds);
      stream->WritesDone();
      return count;
    });
    grpc::ByteBuffer bytes;
    int64_t received = 0;
    while (stream->Read(&bytes)) {
      v1::TopKResult result;
      FromBytes(bytes, result);
      if (check_.IsDue()) check_.Check(result.response());
      microseconds.push_back(SecondsSince(sent[received % kUnderWay]) * 1e6);
      ++received;
      room.release();
    }
    const int64_t count = writer.get();
    Require(stream->Finish());
    if (received != count) throw std::runtime_error("answers are missing");
    return SecondsSince(begin);
  }

 private:
  const RawStreamMethod method_;
  SpotCheck check_;  // keeps the question, which the request borrows
  const grpc::ByteBuffer request_;
};

}  // namespace

CallerPtr RawMany(ChannelPtr channel, QuestionPtr question) {
  return std::make_unique<RawManyCaller>(std::move(channel),
                                         std::move(question));
}

}  // namespace topk::bench
