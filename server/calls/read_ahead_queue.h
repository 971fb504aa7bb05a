// The messages of a stream that were received and nobody has worked on yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace topk {

/// Keeps a stream's messages in order between the event that a message was
/// received and the work on it: one read in flight, one worker at a time, a
/// bounded number of messages and bytes ahead of it. Thread-safe.
template <class Message>
class ReadAheadQueue {
 public:
  /// The next read begins while fewer messages than this wait: gRPC reads from
  /// no connection until those that a poller has at hand are received, of all
  /// streams. More do not make small messages faster. And...
  static constexpr size_t kMaxMessages = 64;
  /// ...fewer bytes.
  static constexpr int64_t kMaxBytes = int64_t{2} << 20;

  /// The next steps after a read.
  struct Next {
    /// Begin the next read.
    bool read = false;
    /// Let a worker begin.
    bool work = false;
  };
  /// A message of `bytes` bytes was received. The first read is the caller's
  /// to begin; the next one waits until a message is taken if this one is
  /// `last` for now.
  Next Receive(Message message, int64_t bytes, bool last = false) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    full_ |= last;
    if (stopped_) return {};
    bytes_ += bytes;
    if (waiting_.empty()) since_ = std::chrono::steady_clock::now();
    waiting_.push_back(std::move(message));
    return {BeginRead(), BeginWork()};
  }
  /// The stream has ended.
  Next ReceiveEnd() {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    if (stopped_) return {};
    ended_ = true;
    return {false, BeginWork()};
  }

  /// The messages that a worker has taken.
  struct Taken {
    /// Begin the next read.
    bool read = false;
    /// The stream has ended, and all of it was taken.
    bool end = false;
    /// There are messages. With neither these nor the end the worker is done,
    /// and another may begin before Take() has returned.
    bool any = false;
    /// When the first of them was received.
    std::chrono::steady_clock::time_point since;
  };
  /// Takes all that waits, in order.
  Taken Take(std::vector<Message>& messages) {
    messages.clear();
    const std::lock_guard lock(mutex_);
    messages.swap(waiting_);
    full_ = false;
    bytes_ = 0;
    Taken taken{false, ended_ && messages.empty(), !messages.empty(), since_};
    working_ = taken.any || taken.end;
    taken.read = working_ && BeginRead();
    return taken;
  }

  /// Nothing is to be read or worked on any more. Returns what waited, to be
  /// destroyed.
  std::vector<Message> Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    return std::exchange(waiting_, {});
  }

 private:
  // Whether to read on; the mutex is held.
  bool BeginRead() {
    if (reading_ || ended_ || stopped_ || full_ ||
        waiting_.size() >= kMaxMessages || bytes_ >= kMaxBytes) {
      return false;
    }
    reading_ = true;
    return true;
  }
  // Whether a worker is needed; the mutex is held.
  bool BeginWork() { return !std::exchange(working_, true); }

  std::mutex mutex_;
  std::vector<Message> waiting_;
  int64_t bytes_ = 0;
  std::chrono::steady_clock::time_point since_;
  bool reading_ = true;
  bool full_ = false;
  bool working_ = false;
  bool ended_ = false;
  bool stopped_ = false;
};

}  // namespace topk
