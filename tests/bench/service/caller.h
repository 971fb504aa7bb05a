// The callers; each kind waits for responses in a different way.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/service/question.h"

namespace topk::bench {

using Clock = std::chrono::steady_clock;

/// Returns the seconds from then to now.
inline double SecondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// One caller of one server.
class Caller {
 public:
  virtual ~Caller() = default;

  /// Calls for `seconds`, at least once. Appends the time of each call and
  /// returns the total time. Throws std::runtime_error if a call fails.
  virtual double Run(double seconds, std::vector<double>& microseconds) = 0;
};

/// A caller of one call after the other.
class ClosedLoop : public Caller {
 public:
  double Run(double seconds, std::vector<double>& microseconds) final;

 protected:
  virtual void Call() = 0;
};

/// Whether a server answers, or as the null server only seems to.
enum class Answers { kRight, kNone };

using CallerPtr = std::unique_ptr<Caller>;
using ChannelPtr = std::shared_ptr<grpc::Channel>;

// Raw callers send the tensor from where it lies and check the answers.

/// ComputeTopK with any message that asks the question.
CallerPtr RawUnary(ChannelPtr channel, QuestionPtr question,
                   grpc::ByteBuffer request);
/// ModelInfer, in the same way.
CallerPtr RawInfer(ChannelPtr channel, QuestionPtr question,
                   grpc::ByteBuffer request);
/// StreamTopK.
CallerPtr RawStream(ChannelPtr channel, QuestionPtr question);
/// ComputeTopKMany, with up to 256 requests in flight on one stream.
CallerPtr RawMany(ChannelPtr channel, QuestionPtr question);

// Stock callers use the generated code as it comes. Their messages are filled
// beforehand: no copy into a message is counted.

/// ComputeTopK.
CallerPtr StockUnary(ChannelPtr channel, QuestionPtr question, Answers answers);
/// StreamTopK.
CallerPtr StockStream(ChannelPtr channel, QuestionPtr question);

// Peers that move the same bytes and compute nothing.

/// A TCP connection over the loopback to a thread that reads all of it.
CallerPtr TcpPeer(QuestionPtr question);
/// A command that calls for a number of seconds and prints the microseconds of
/// each call. Its arguments are the size in bytes and the seconds.
CallerPtr CommandPeer(std::string command, QuestionPtr question);

}  // namespace topk::bench
