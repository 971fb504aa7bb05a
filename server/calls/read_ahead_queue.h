// The messages of a stream that were received and nobody has worked on yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// Keeps a stream's messages in order between the event that a message was
/// received and the work on it: one read in flight, one worker at a time, a
/// bounded number of messages and bytes ahead of it. Thread-safe.
template <class Message>
class ReadAheadQueue {
 public:
  /// No read begins while this many messages wait. The limit is low because a
  /// poller takes all messages at hand, of all streams, before it reads from
  /// any connection again. A higher limit does not make small messages faster.
  static constexpr size_t kMaxMessages = 64;
  /// No read begins while this many bytes wait.
  static constexpr int64_t kMaxBytes = int64_t{2} << 20;

  /// The next steps after a read.
  struct Next {
    /// Begin the next read.
    bool read = false;
    /// Let a worker begin.
    bool work = false;
    /// The stream had ended already: the message was not added.
    bool late = false;
  };
  /// Returns whether a message that is added now has to wait.
  bool WillWait() {
    const std::lock_guard lock(mutex_);
    return working_ || total_bytes_ < least_bytes_;
  }

  /// Adds a message of `bytes` bytes, which it moves from unless the stream has
  /// ended. If `last`, no read begins until the waiting messages are taken. The
  /// caller starts the stream's first read.
  Next Receive(Message& message, int64_t bytes, bool last = false) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    full_ |= last;
    if (stopped_ || ended_) return {.late = true};
    received_at_ = std::chrono::steady_clock::now();
    bytes_ += bytes;
    total_bytes_ += bytes;
    if (waiting_.empty()) since_ = received_at_;
    waiting_.push_back({std::move(message), bytes});
    const bool read = BeginRead();
    return {.read = read, .work = BeginWork()};
  }
  /// The stream has ended.
  Next ReceiveEnd() {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    return End({});
  }
  /// Ends the stream with an error: no message is received after those that
  /// wait. No-op if the stream has ended, or if it has work or has received a
  /// message within `unless_within`.
  Next Interrupt(Status status, std::chrono::milliseconds unless_within = {}) {
    const std::lock_guard lock(mutex_);
    if (unless_within.count() > 0 &&
        (working_ ||
         std::chrono::steady_clock::now() - received_at_ < unless_within)) {
      return {};
    }
    return End(std::move(status));
  }

  /// What a worker has taken.
  struct Taken {
    /// Begin the next read.
    bool read = false;
    /// The stream has ended, and all of it was taken.
    bool end = false;
    /// The error of Interrupt() that has ended the stream, or OK.
    Status status;
    /// There are messages. If there are none and the stream has not ended, the
    /// worker must leave: another may begin before the function has returned.
    bool any = false;
    /// When the first of them was received, or the one before it.
    std::chrono::steady_clock::time_point since;
    /// The bytes of all messages of the stream that were received.
    int64_t total_bytes = 0;
  };

  /// Takes all that waits, in order.
  Taken Take(std::vector<Message>& messages) {
    messages.clear();
    const std::lock_guard lock(mutex_);
    for (Waiting& next : waiting_) messages.push_back(std::move(next.message));
    waiting_.clear();
    bytes_ = 0;
    return Took(!messages.empty());
  }

  /// Takes the next message, but none before `least_bytes` of the stream have
  /// been received; until then reads begin whatever waits. After Interrupt()
  /// takes none.
  Taken TakeOne(std::optional<Message>& message, int64_t least_bytes) {
    const std::lock_guard lock(mutex_);
    least_bytes_ = least_bytes;
    const bool takes = !waiting_.empty() && status_.ok() &&
                       (ended_ || total_bytes_ >= least_bytes);
    if (!takes) return Took(false);
    message.emplace(std::move(waiting_.front().message));
    bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
    return Took(true);
  }

  struct Waiting {
    Message message;
    int64_t bytes;
  };

  /// Nothing is to be read or worked on any more. Returns what waited, which
  /// may be millions of small messages.
  std::deque<Waiting> Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    return std::exchange(waiting_, {});
  }

  bool stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

 private:
  // The mutex is held in the following.
  Next End(Status status) {
    if (stopped_ || std::exchange(ended_, true)) return {};
    status_ = std::move(status);
    return {.work = BeginWork()};
  }
  Taken Took(bool any) {
    Taken taken;
    full_ = false;
    taken.any = any;
    taken.since = since_;
    taken.total_bytes = total_bytes_;
    taken.end = ended_ && !any;
    if (taken.end) taken.status = status_;
    working_ = taken.any || taken.end;
    taken.read = BeginRead();
    return taken;
  }

  // Returns whether to read on.
  bool BeginRead() {
    const bool enough = waiting_.size() >= kMaxMessages || bytes_ >= kMaxBytes;
    if (reading_ || ended_ || stopped_ || full_ ||
        (enough && total_bytes_ >= least_bytes_)) {
      return false;
    }
    reading_ = true;
    return true;
  }
  // Returns whether a worker is needed.
  bool BeginWork() { return !std::exchange(working_, true); }

  std::mutex mutex_;
  std::deque<Waiting> waiting_;
  int64_t bytes_ = 0;        // of what waits
  int64_t total_bytes_ = 0;  // of all that was received
  int64_t least_bytes_ = 0;  // that TakeOne() needs
  std::chrono::steady_clock::time_point since_;
  bool reading_ = true;
  bool full_ = false;
  bool working_ = false;
  std::chrono::steady_clock::time_point received_at_;  // the last message
  bool ended_ = false;
  Status status_;  // of the end
  bool stopped_ = false;
};

}  // namespace topk
