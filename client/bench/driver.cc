#include "client/bench/driver.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "client/check_response.h"
#include "client/retry.h"
#include "client/rpc_error.h"
#include "core/base/happens_before.h"

namespace topk::cli {
namespace {

using std::chrono::steady_clock;

// The number of messages that gRPC may buffer and send together.
constexpr size_t kTogether = 32;
constexpr int kCallersPerThread = 8;
// How often `tick` runs, and how often a thread that waits until a call is due
// checks whether the load test is over.
constexpr Load::Time kNap = std::chrono::milliseconds(100);

// Makes one call at a time, with retries. The caller of Start() owns the object
// until the call has begun, and the thread that polls `queue` afterwards.
class Caller {
 public:
  // `number` is the index of this caller among all callers.
  Caller(CallSettings& settings, const RequestTemplate& request, size_t number,
         const std::shared_ptr<grpc::ChannelInterface>& channel,
         grpc::CompletionQueue& queue)
      : settings_(settings),
        request_(request),
        number_(number),
        channel_(channel),
        stub_(channel),
        queue_(queue),
        method_(PathOf(settings.path.method)) {
    for (int i = 0; i < kEvents; ++i) tags_[i] = {this, static_cast<Event>(i)};
  }

  void Start(const Load::Call& call, Load::Time sent) {
    call_ = call;
    sent_ = sent;
    outcome_ = {};
    deadline_ = std::chrono::system_clock::now() + settings_.client.timeout;
    attempts_.emplace(settings_.client.retry, deadline_);
    Attempt();
  }

  // Handles an event of the queue. Returns the caller if its call has ended,
  // otherwise null.
  static Caller* Handle(void* tag, bool ok) {
    AnnotateHappensAfter(tag);
    const auto [caller, event] = *static_cast<Tag*>(tag);
    return caller->OnEvent(event, ok) ? caller : nullptr;
  }

  // The last call that was started.
  const Load::Call& call() const { return call_; }
  Load::Time sent() const { return sent_; }
  const Outcome& outcome() const { return outcome_; }

 private:
  enum Event { kStart, kWrite, kRead, kFinish, kRetry, kEvents };
  struct Tag {
    Caller* caller;
    Event event;
  };

  void* TagOf(Event event) {
    AnnotateHappensBefore(&tags_[event]);
    return &tags_[event];
  }

  const std::vector<grpc::ByteBuffer>& messages() { return request_.messages; }
  size_t unfinished() {
    return (settings_.path.batched() ? messages().size() : 1) -
           outcome_.compute.size() - outcome_.errors.size();
  }

  void Attempt() {
    context_.emplace();
    context_->set_deadline(deadline_);
    AddHeaders({}, settings_.client.metadata, settings_.token, *context_);
    bad_ = {};
    begun_ = false;
    if (settings_.path.unary()) {
      unary_ = stub_.PrepareUnaryCall(&*context_, method_,
                                      messages()[number_ % messages().size()],
                                      &queue_);
      unary_->StartCall();
      unary_->Finish(&incoming_, &status_, TagOf(kFinish));
    } else {
      next_ = settings_.path.batched() ? messages().size() - unfinished() : 0;
      response_.reset();
      stream_ = stub_.PrepareCall(&*context_, method_, &queue_);
      stream_->StartCall(TagOf(kStart));
    }
  }

  // Returns whether the call has ended.
  bool OnEvent(Event event, bool ok) {
    if (event == kFinish) return End();
    if (event == kRetry) {
      Attempt();
      return false;
    }
    if (event == kWrite) writing_ = false;
    if (event == kRead) reading_ = false;
    if (event == kRead && ok) {
      begun_ = true;
      bad_ = Receive();
      if (!bad_.ok()) context_->TryCancel();
    }
    if (event != kWrite && ok && bad_.ok()) {
      reading_ = true;
      stream_->Read(&incoming_, TagOf(kRead));
    }
    // If a write fails, the server has already ended the call with a status.
    if (event != kRead && ok && reading_ && next_ < messages().size()) Write();
    if (!reading_ && !writing_) stream_->Finish(&status_, TagOf(kFinish));
    return false;
  }

  void Write() {
    writing_ = true;
    const grpc::ByteBuffer& message = messages()[next_++];
    grpc::WriteOptions options;
    if (next_ == messages().size()) {
      options.set_last_message();
    } else if (settings_.path.batched() && next_ % kTogether != 0) {
      options.set_buffer_hint();
    }
    stream_->Write(message, options, TagOf(kWrite));
  }

  // Handles a message of a stream.
  Status Receive() {
    if (!settings_.path.batched()) {
      v1::TopKResponseChunk chunk;
      if (Status s = ReadAnswer(incoming_, chunk); !s.ok()) return s;
      return Assemble(chunk, response_);
    }
    v1::TopKResult result;
    if (Status s = ReadAnswer(incoming_, result); !s.ok()) return s;
    if (unfinished() == 0) return BadAnswer("", "more results than requests");
    if (result.has_response()) return Accept(result.response());
    if (result.error().code() == 0) return BadAnswer("", "an empty result");
    outcome_.errors.push_back(FromRpc(result.error()));
    return {};
  }

  // Handles the end of a successful call.
  Status Complete() {
    if (unfinished() == 0) return {};
    if (settings_.path.batched()) {
      return BadAnswer("", "fewer results than requests");
    }
    if (settings_.path.unary()) {
      if (!response_) response_.emplace();
      if (Status s = ReadAnswer(incoming_, *response_); !s.ok()) return s;
    }
    if (!response_) return BadAnswer("", "the stream ended without a header");
    return Accept(*response_);
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

  // Returns whether the call has ended, i.e. is not retried.
  bool End() {
    Status status = !bad_.ok()     ? bad_
                    : status_.ok() ? Complete()
                                   : FromGrpc(status_, *context_);
    unary_.reset();
    stream_.reset();
    context_.reset();
    if (unfinished() == 0) return true;
    if (const auto then = attempts_->Next(status, begun_)) {
      outcome_.retried = true;
      channel_->GetState(/*try_to_connect=*/true);
      alarm_.Set(&queue_, *then, TagOf(kRetry));
      return false;
    }
    outcome_.errors.resize(outcome_.errors.size() + unfinished(), status);
    return true;
  }

  CallSettings& settings_;
  const RequestTemplate& request_;
  const size_t number_;
  const std::shared_ptr<grpc::ChannelInterface> channel_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue& queue_;
  const std::string method_;
  Tag tags_[kEvents];
  grpc::Alarm alarm_;
  // The call.
  Load::Call call_{};
  Load::Time sent_{};
  std::chrono::system_clock::time_point deadline_;
  std::optional<Attempts> attempts_;
  Outcome outcome_;
  // The attempt. The context must outlive `unary_` and `stream_`.
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  std::optional<v1::TopKResponse> response_;
  Status bad_;       // why a message from the server was not accepted
  size_t next_ = 0;  // the next message to write
  bool reading_ = false;
  bool writing_ = false;
  bool begun_ = false;  // whether part of the response has arrived
};

// Drives some of the callers with two threads. One thread receives responses.
// In a closed loop, it also starts the next call of the same caller. In an open
// loop, the other thread starts each call when it is due, because gRPC's queues
// wake their thread only at whole milliseconds.
class Driver {
 public:
  Driver(bool open, Load& load, steady_clock::time_point start)
      : open_(open), load_(load), start_(start) {}

  void AddCaller(CallSettings& settings, const RequestTemplate& request,
                 size_t number,
                 const std::shared_ptr<grpc::ChannelInterface>& channel) {
    idle_.push_back(
        &callers_.emplace_back(settings, request, number, channel, queue_));
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
      caller.Start(*call, Now());
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
      Caller* const caller = Caller::Handle(tag, ok);
      if (caller == nullptr) continue;
      const Load::Time now = Now();
      load_.Record(caller->call(), caller->sent(), now, caller->outcome());
      const auto call = open_ ? std::nullopt : load_.Next(now);
      if (call) {
        caller->Start(*call, Now());
        continue;
      }
      const std::lock_guard lock(mutex_);
      idle_.push_back(caller);
      changed_.notify_one();
    }
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

Outcome CallOnce(CallSettings& settings, const RequestTemplate& request,
                 const std::shared_ptr<grpc::ChannelInterface>& channel) {
  grpc::CompletionQueue queue;
  Caller caller(settings, request, 0, channel, queue);
  caller.Start({}, {});
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
    if (Caller::Handle(tag, ok) != nullptr) queue.Shutdown();
  }
  return caller.outcome();
}

Load::Time Drive(CallSettings& settings, const RequestTemplate& request,
                 const Channels& channels, int callers, bool open, Load& load,
                 const std::function<void(Load::Time now)>& tick) {
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
    drivers[i % drivers.size()].AddCaller(settings, request, i,
                                          channels[i % channels.size()]);
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
