#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/happens_before.h"
#include "server/calls/handlers.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/request.h"
#include "server/calls/streaming_call.h"

namespace topk {
namespace {

// Maximum number and total size of requests that a poller computes at a time.
constexpr size_t kPollerItems = 32;
constexpr int64_t kPollerBytes = int64_t{48} << 10;
// The memory charged for an item in addition to its message. Even empty
// messages use memory, and a connection may have 256 streams of 64 messages.
constexpr int64_t kItemBytes = int64_t{4} << 10;
// Messages of one slice are compacted only above this many bytes in flight, so
// at most 1024 messages each keep a whole gRPC receive block allocated.
constexpr int64_t kUncompactedBytes = 1024 * kItemBytes;

// Answers the waiting requests as a group while the next group is received. Two
// sequences run concurrently and share only `queue_`:
//
// Reading, at most one read in flight: OnMessage() -> OnMessage() -> ...
// Answering, by one consumer at a time:
//   idle -> AnswerGroup() -> AnswerMore()
//        -> ComputeHere() on the poller, for a few small requests,
//           or PrepareOnWorkers() -> ComputeOnWorkers() -> SendAll() for the
//           rest of the group
//        -> SendNext() -> OnWritten() -> SendNext() -> ...
//        -> AnswerMore() while the group has more, then AnswerGroup()
//        -> idle, once no request waits, or FinishStream() -> finished.
class ManyCall final : public StreamingCall {
 public:
  ManyCall(SharedState& state, Call& call, MakeCodec make_codec)
      : StreamingCall(state, call, /*many=*/true),
        queue_(info_.slot),
        make_codec_(std::move(make_codec)) {}

 private:
  struct Item {
    // Counts the response as in flight until the response is sent.
    std::unique_ptr<TensorRequest> request;
    int64_t bytes = 0;  // counted against the queue's limit
    static constexpr int64_t held_bytes = 0;  // charged by `request`
    Status status;
    bool prepared = false;
    bool computed = false;  // its response or error is ready
  };
  using Queue = ReadAheadQueue<Item>;

  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    const Queue::Next next = ok ? Receive(message) : queue_.ReceiveEnd();
    if (next.read) call_.Read();
    if (next.consume) AnswerGroup();
  }

  Queue::Next Receive(grpc::ByteBuffer& message) {
    Item item{std::make_unique<TensorRequest>(
                  state_, info_, call_.cancellation(), make_codec_(),
                  RequestStats::Clock::now()),
              static_cast<int64_t>(message.Length()),
              {}};
    // Compact only messages that wait. Copying slows small requests by 10 %.
    if ((state_.admission.in_flight().bytes() > kUncompactedBytes ||
         CountSlices(message) > 1) &&
        (queue_.WillWait() || call_.loop().IsBehind())) {
      Compact(message);
    }
    item.status = item.request->Admit(message, kItemBytes);
    // A rejected message does not count as in flight. Give its item the size of
    // a full queue, so that reading stops until the item is taken.
    if (!item.status.ok()) item.bytes = kMaxReadAheadBytes;
    const Queue::Next next = queue_.Receive(item);
    // Receive() does not take the request out of `item` if the stream has
    // ended.
    if (item.request != nullptr) RecordUnanswered(item, Cancelled());
    return next;
  }

  // Ends the stream after answering the requests already received.
  void Interrupt(const Status& status, bool) override {
    if (queue_.Interrupt(status).consume) AnswerGroup();
  }

  // Takes all waiting messages as the next group and starts to answer them.
  void AnswerGroup() {
    const auto taken = queue_.Take(group_);
    WidenRace();
    if (taken.read) call_.Read();
    if (!taken.consume) return;
    sent_ = 0;
    if (taken.end) return FinishStream(taken.status);
    AnswerMore();
  }

  // Computes the next small requests of group_ on this poller and sends the
  // responses. If no request was computed, workers answer the rest of group_.
  void AnswerMore() {
    computed_ = sent_;
    if (!call_.loop().IsBehind()) ComputeHere();
    if (computed_ > sent_) return SendNext();
    PrepareOnWorkers();
  }

  void ComputeHere() {
    // The estimated CPU times exclude Prepare(), which is slow for some
    // layouts. Therefore, limit the elapsed time too.
    constexpr std::chrono::milliseconds kMost{1};
    const auto begin = RequestStats::Clock::now();
    Size nanoseconds;
    int64_t bytes = 0;
    for (Item& item : Rest().first(std::min(Rest().size(), kPollerItems))) {
      if (item.status.ok()) bytes += item.bytes;
      if (bytes > kPollerBytes || RequestStats::Clock::now() - begin > kMost) {
        return;
      }
      Prepare(item);
      if (item.status.ok()) {
        nanoseconds += item.request->nanoseconds();
        if (!item.request->MayRunOnPoller() ||
            nanoseconds > WorkQueue::kSmallNanoseconds) {
          return;
        }
      }
      Compute(item);
      ++computed_;
    }
  }

  // Prepares all remaining requests and computes the small requests.
  void PrepareOnWorkers() {
    ForEach(
        /*computes=*/false,
        [this](Item& item) {
          // ComputeOnWorkers() ends the stream.
          if (call_.cancellation().cancelled()) return;
          Prepare(item);
          if (!item.status.ok() || item.request->MayRunOnPoller()) {
            Compute(item);
          }
        },
        [this] { ComputeOnWorkers(); });
  }

  void ComputeOnWorkers() {
    if (const Status gone = call_.CheckAlive(); !gone.ok()) {
      return FinishStream(gone);
    }
    const auto is_computed = [](const Item& item) { return item.computed; };
    if (std::ranges::all_of(Rest(), is_computed)) return SendAll();
    ForEach(
        /*computes=*/true, [this](Item& item) { Compute(item); },
        [this] { SendAll(); });
  }

  void SendAll() {
    computed_ = group_.size();
    SendNext();
  }

  void SendNext() {
    grpc::WriteOptions options;
    if (sent_ + 1 < computed_) options.set_buffer_hint();
    call_.Write(group_[sent_].request->response(), options);
  }

  void OnWritten(bool ok) override {
    if (!ok) return FinishStream(Cancelled());
    group_[sent_++] = {};
    if (sent_ < computed_) return SendNext();
    if (sent_ < group_.size()) return AnswerMore();
    group_.clear();
    AnswerGroup();
  }

  void FinishStream(const Status& status) {
    const auto waiting = queue_.Stop();
    for (const Item& item : Rest()) RecordUnanswered(item, status);
    for (const Item& item : waiting) RecordUnanswered(item, status);
    call_.Finish(status);
  }

  // Calls do_item() for each unsent item, and then done(). Divides the items
  // among workers if there is enough work to wake several. `computes` tells
  // whether do_item() computes prepared items, or prepares the others.
  template <class Do, class Done>
  void ForEach(bool computes, Do do_item, Done done) {
    constexpr int64_t kMinNanoseconds = 3 * WorkQueue::kSmallNanoseconds;
    std::span<Item> rest = Rest();
    const auto left = std::make_shared<std::atomic<size_t>>(rest.size());
    while (!rest.empty()) {
      Size nanoseconds;
      size_t count = 0;
      while (count < rest.size() && nanoseconds <= kMinNanoseconds) {
        const Item& item = rest[count++];
        if (item.prepared == computes && !item.computed) {
          nanoseconds += item.request->nanoseconds();
        }
      }
      const std::span<Item> items = rest.first(count);
      rest = rest.subspan(count);
      const auto work = [=] {
        for (Item& item : items) do_item(item);
        if ((*left -= items.size()) == 0) done();
      };
      Enqueue(nanoseconds, work, computes);
    }
  }

  void Prepare(Item& item) {
    if (std::exchange(item.prepared, true)) return;
    if (item.status.ok()) item.status = item.request->Prepare();
  }

  void Compute(Item& item) {
    if (std::exchange(item.computed, true)) return;
    if (item.status.ok()) {
      item.status = WithCancelCause(item.request->Run());
    }
    if (!item.status.ok()) item.request->WriteError(item.status);
    item.request->Record(item.status);
    item.request->ReleaseMessage();
  }

  void RecordUnanswered(const Item& item, const Status& status) {
    if (item.computed) return;
    item.request->Record(item.status.ok() ? status : item.status);
  }

  // Each request of an admitted call is recorded individually.
  void RecordRequest(const Status& status) override {
    if (!info_.slot.is_taken()) StreamingCall::RecordRequest(status);
  }

  std::span<Item> Rest() { return std::span(group_).subspan(sent_); }

  Queue queue_;  // thread-safe
  const MakeCodec make_codec_;
  // Used only by the current consumer of queue_, which may access different
  // items on several threads; see ForEach().
  std::vector<Item> group_;
  size_t sent_ = 0;      // items of group_ that were sent
  size_t computed_ = 0;  // items of group_ ready to send
};

}  // namespace

std::unique_ptr<CallHandler> MakeManyCall(SharedState& state, Call& call,
                                          MakeCodec make_codec) {
  return std::make_unique<ManyCall>(state, call, std::move(make_codec));
}

}  // namespace topk
