#include "client/bench/driver.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "client/check_response.h"
#include "client/client_call.h"
#include "client/rpc_error.h"

namespace topk::cli {
namespace {

using std::chrono::steady_clock;

// The number of messages that gRPC may buffer and send together.
constexpr size_t kTogether = 32;
constexpr int kCallersPerThread = 8;
// How often `tick` runs, and how often a thread that waits until a call is due
// checks whether the load test is over.
constexpr Load::Time kNap = std::chrono::milliseconds(100);

// Makes one call at a time.
class Caller : public ClientCall {
 public:
  // `number` is the index of this caller among all callers.
  Caller(Connection& connection, const BenchPath& path,
         const RequestTemplate& request, size_t number,
         grpc::CompletionQueue& queue)
      : ClientCall(connection, queue, path.method, path.unary()),
        path_(path),
        request_(request),
        number_(number) {}

  // Returns false if the call has ended already.
  bool Start(const Load::Call& call, Load::Time sent) {
    static const CallOptions kOptions;
    call_ = call;
    sent_ = sent;
    outcome_ = {};
    next_ = 0;
    response_.reset();
    return ClientCall::Start(kOptions);
  }

  // Returns the outcome of the call that has ended.
  const Outcome& Finish() {
    Status end = status();
    if (end.ok() && response_) end = Accept(*response_);
    if (Unanswered() > 0) {
      if (end.ok()) end = BadAnswer("", "the stream ended early");
      outcome_.errors.resize(outcome_.errors.size() + Unanswered(), end);
    }
    return outcome_;
  }

  // The last call that was started.
  const Load::Call& call() const { return call_; }
  Load::Time sent() const { return sent_; }

 private:
  size_t Answered() const {
    return outcome_.compute.size() + outcome_.errors.size();
  }
  size_t Unanswered() const {
    return (path_.batched() ? request_.messages.size() : 1) - Answered();
  }

  std::optional<Message> Next() override {
    const std::vector<grpc::ByteBuffer>& messages = request_.messages;
    if (path_.unary()) return Message{messages[number_ % messages.size()]};
    if (next_ == messages.size()) return {};
    Message message{messages[next_++]};
    if (next_ == messages.size()) {
      message.options.set_last_message();
    } else if (path_.batched() && next_ % kTogether != 0) {
      message.options.set_buffer_hint();
    }
    return message;
  }

  Status Receive(grpc::ByteBuffer& bytes) override {
    if (path_.unary()) {
      v1::TopKResponse response;
      if (Status s = ReadAnswer(bytes, response); !s.ok()) return s;
      return Accept(response);
    }
    if (!path_.batched()) {
      v1::TopKResponseChunk chunk;
      if (Status s = ReadAnswer(bytes, chunk); !s.ok()) return s;
      return Assemble(chunk, response_);
    }
    v1::TopKResult result;
    if (Status s = ReadAnswer(bytes, result); !s.ok()) return s;
    if (Unanswered() == 0) return BadAnswer("", "more results than requests");
    if (result.has_response()) return Accept(result.response());
    if (result.error().code() == 0) return BadAnswer("", "an empty result");
    outcome_.errors.push_back(FromRpc(result.error()));
    return {};
  }

  void Rewind() override {
    outcome_.retried = true;
    next_ = Answered();
    response_.reset();
  }

  Status Accept(const v1::TopKResponse& response) {
    if (Status s = CheckResponse(request_.request, response); !s.ok()) return s;
    outcome_.compute.push_back(response.execution().compute_nanoseconds());
    if (call_.verify && request_.expected) {
      const v1::TopKResponse& expected = *request_.expected;
      outcome_.wrong |= response.values().data() != expected.values().data() ||
                        response.indices().data() != expected.indices().data();
    }
    return {};
  }

  const BenchPath& path_;
  const RequestTemplate& request_;
  const size_t number_;
  Load::Call call_{};
  Load::Time sent_{};
  Outcome outcome_;
  size_t next_ = 0;  // the next message to write
  std::optional<v1::TopKResponse> response_;
};

// Drives some of the callers with two threads. One thread receives responses.
// In a closed loop, it also starts the next call of the same caller. In an open
// loop, the other thread starts each call when it is due, because gRPC's queues
// wake their thread only at whole milliseconds.
class Driver {
 public:
  Driver(bool open, Load& load, steady_clock::time_point start)
      : open_(open), load_(load), start_(start) {}

  void AddCaller(Connection& connection, const BenchPath& path,
                 const RequestTemplate& request, size_t number) {
    idle_.push_back(
        &callers_.emplace_back(connection, path, request, number, queue_));
  }

  // Blocks until the load is over.
  void Run() {
    const std::jthread receiver([this] { Receive(); });
    // With the default timer slack, the kernel may wake this thread 50 us late.
    prctl(PR_SET_TIMERSLACK, 1);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !idle_.empty(); });
      Caller& caller = *idle_.front();
      lock.unlock();
      const auto call = load_.Next(Now());
      const bool is_due = call && Await(call->at);
      lock.lock();
      if (!is_due) break;
      idle_.pop_front();
      lock.unlock();
      if (!caller.Start(*call, Now())) GoOn(caller);
      lock.lock();
    }
    changed_.wait(lock, [this] { return idle_.size() == callers_.size(); });
    queue_.Shutdown();
  }

 private:
  Load::Time Now() const { return steady_clock::now() - start_; }

  // Waits until `at`. Returns false if the load is over first.
  bool Await(Load::Time at) const {
    for (Load::Time now = Now(); now < at; now = Now()) {
      if (load_.stopped()) return false;
      std::this_thread::sleep_until(start_ + std::min(at, now + kNap));
    }
    return true;
  }

  void Receive() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      auto* const caller = static_cast<Caller*>(ClientCall::Handle(tag, ok));
      if (caller != nullptr) GoOn(*caller);
    }
  }

  // Records the call that has ended, and starts the caller's next call.
  void GoOn(Caller& caller) {
    std::optional<Load::Call> call;
    do {
      const Load::Time now = Now();
      load_.Record(caller.call(), caller.sent(), now, caller.Finish());
      call = open_ ? std::nullopt : load_.Next(now);
    } while (call && !caller.Start(*call, Now()));
    if (call) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(&caller);
    changed_.notify_one();
  }

  const bool open_;
  Load& load_;
  const steady_clock::time_point start_;
  grpc::CompletionQueue queue_;
  std::deque<Caller> callers_;  // never moves its elements
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Caller*> idle_;
};

}  // namespace

Outcome CallOnce(Connection& connection, const BenchPath& path,
                 const RequestTemplate& request) {
  grpc::CompletionQueue queue;
  Caller caller(connection, path, request, 0, queue);
  static_cast<void>(caller.Run({}));
  return caller.Finish();
}

Load::Time Drive(Connections& connections, const BenchPath& path,
                 const RequestTemplate& request, int callers, bool open,
                 Load& load, const std::function<void(Load::Time now)>& tick) {
  const auto cpus = static_cast<int>(std::thread::hardware_concurrency());
  const int threads =
      std::clamp((callers + kCallersPerThread - 1) / kCallersPerThread, 1,
                 std::max(cpus / 2, 1));
  const auto start = steady_clock::now();
  std::deque<Driver> drivers;
  for (int i = 0; i < threads; ++i) {
    drivers.emplace_back(open, load, start);
  }
  for (size_t i = 0; i < static_cast<size_t>(callers); ++i) {
    drivers[i % drivers.size()].AddCaller(connections[i % connections.size()],
                                          path, request, i);
  }
  std::vector<std::future<void>> runs;
  for (Driver& driver : drivers) {
    runs.push_back(std::async(std::launch::async, &Driver::Run, &driver));
  }
  auto next = start;
  for (const std::future<void>& run : runs) {
    while (run.wait_until(next += kNap) != std::future_status::ready) {
      tick(steady_clock::now() - start);
    }
  }
  return steady_clock::now() - start;
}

}  // namespace topk::cli
