// Buffers the messages of a stream until they are processed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/checked.h"
#include "core/common/mutex.h"
#include "server/admission/in_flight_limiter.h"
#include "topk/status.h"

namespace topk {

/// A stream stops reading while this many received bytes await processing.
inline constexpr int64_t kMaxReadAheadBytes = int64_t{2} << 20;

/// Queues a stream's received messages for processing, in order. Allows one
/// read in flight and one consumer at a time, and limits the messages and bytes
/// that are read ahead. The consumer is a thread that takes messages: the
/// poller that received a message, or a worker. Thread-safe.
///
/// Message::bytes counts towards kMaxReadAheadBytes. Message::held_bytes is the
/// memory to charge. TakeOne() releases the charge of the message that the
/// previous TakeOne() returned. Take() releases no charge.
template <class Message>
class ReadAheadQueue {
 public:
  /// A stream stops reading while this many messages await processing. A higher
  /// limit does not speed up streams of small messages.
  static constexpr size_t kMaxMessages = 64;

  /// REQUIRES: the call is admitted before its first message is received.
  explicit ReadAheadQueue(InFlightLimiter::Slot& slot) : charge_(slot) {}

  /// What the caller must do next.
  struct Next {
    /// Begin the next read.
    bool read = false;
    /// Take messages as the consumer: call Take() or TakeOne() until the result
    /// has `consume` = false or `end` = true.
    bool consume = false;
  };

  /// Returns whether a message added now would have to wait.
  bool WillWait() {
    const MutexLock lock(mutex_);
    return has_consumer_ || total_bytes_ < least_bytes_;
  }

  /// Reserves memory for the messages of a started stream: at least `bytes`
  /// bytes count as in flight from now on. Returns errors of Charge::Add().
  Status Reserve(Size bytes) {
    const MutexLock lock(mutex_);
    reserved_bytes_ = bytes.value();
    return ChargeHeld();
  }

  /// Adds a message. If the message exceeds a memory limit, ends the stream. If
  /// the stream has ended, leaves `message` unchanged. The caller must start
  /// the stream's first read itself.
  Next Receive(Message& message) {
    const MutexLock lock(mutex_);
    reading_ = false;
    if (ended_) return {};
    held_bytes_ += message.held_bytes;
    if (Status s = ChargeHeld(); !s.ok()) return End(std::move(s));
    bytes_ += message.bytes;
    total_bytes_ += message.bytes;
    if (waiting_.empty()) since_ = std::chrono::steady_clock::now();
    waiting_.push_back(std::move(message));
    const bool read = BeginRead();
    return {.read = read, .consume = BeginConsuming()};
  }
  /// Marks the end of the stream.
  Next ReceiveEnd() {
    const MutexLock lock(mutex_);
    reading_ = false;
    return End({});
  }
  /// Ends the stream with an error unless it has ended. Take() still returns
  /// the waiting messages. If `if_idle` is true, no-op while a consumer exists.
  Next Interrupt(Status status, bool if_idle = false) {
    const MutexLock lock(mutex_);
    if (if_idle && has_consumer_) return {};
    return End(std::move(status));
  }

  /// The result of Take() and TakeOne().
  struct Taken : Next {
    /// True if the stream has ended and no more messages will be returned.
    /// Otherwise, `consume` tells whether any messages were returned.
    bool end = false;
    /// The error that ended the stream if `end` is true, otherwise OK.
    Status status;
    /// When the queue last became non-empty.
    std::chrono::steady_clock::time_point since;
    /// The bytes received on this stream so far.
    int64_t total_bytes = 0;
  };

  /// Takes all waiting messages, in order.
  Taken Take(std::vector<Message>& messages) {
    const MutexLock lock(mutex_);
    messages.assign(std::move_iterator(waiting_.begin()),
                    std::move_iterator(waiting_.end()));
    waiting_.clear();
    bytes_ = 0;
    return Took(!messages.empty());
  }

  /// Takes the next message if the stream has received `least_bytes` bytes or
  /// has ended. Otherwise takes nothing, and the stream keeps reading even if
  /// the queue is full. Takes nothing after Interrupt().
  Taken TakeOne(std::optional<Message>& message, int64_t least_bytes) {
    const MutexLock lock(mutex_);
    held_bytes_ -= std::exchange(taken_bytes_, 0);
    charge_.Shrink(std::max(held_bytes_, reserved_bytes_));
    least_bytes_ = least_bytes;
    const bool takes = !waiting_.empty() && status_.ok() &&
                       (ended_ || total_bytes_ >= least_bytes);
    if (!takes) return Took(false);
    message.emplace(std::move(waiting_.front()));
    bytes_ -= message->bytes;
    taken_bytes_ = message->held_bytes;
    waiting_.pop_front();
    return Took(true);
  }

  /// Ends the stream and returns the waiting messages. There may be millions of
  /// messages, so freeing them can be slow. Only the consumer may call this
  /// function. Do not take messages afterwards.
  std::deque<Message> Stop() {
    const MutexLock lock(mutex_);
    ended_ = true;
    return std::exchange(waiting_, {});
  }

  /// Returns whether the stream has ended. Messages may still be waiting.
  bool ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }

 private:
  Status ChargeHeld() TOPK_REQUIRES(mutex_) {
    const Size missing =
        Size(std::max(held_bytes_, reserved_bytes_)) - charge_.bytes();
    return missing == 0 ? Status() : charge_.Add(missing);
  }
  Next End(Status status) TOPK_REQUIRES(mutex_) {
    if (std::exchange(ended_, true)) return {};
    status_ = std::move(status);
    return {.consume = BeginConsuming()};
  }
  Taken Took(bool any) TOPK_REQUIRES(mutex_) {
    Taken taken;
    taken.since = since_;
    taken.total_bytes = total_bytes_;
    taken.end = ended_ && !any;
    if (taken.end) taken.status = status_;
    has_consumer_ = taken.consume = any || taken.end;
    taken.read = BeginRead();
    return taken;
  }

  // Returns whether to start a read. If so, marks a read as in flight.
  bool BeginRead() TOPK_REQUIRES(mutex_) {
    const bool enough =
        waiting_.size() >= kMaxMessages || bytes_ >= kMaxReadAheadBytes;
    if (reading_ || ended_ || (enough && total_bytes_ >= least_bytes_)) {
      return false;
    }
    reading_ = true;
    return true;
  }
  // Makes the caller the consumer if there is none. Returns whether it did so.
  bool BeginConsuming() TOPK_REQUIRES(mutex_) {
    return !std::exchange(has_consumer_, true);
  }

  Mutex mutex_;
  std::deque<Message> waiting_ TOPK_GUARDED_BY(mutex_);
  int64_t bytes_ TOPK_GUARDED_BY(mutex_) = 0;        // size of waiting_
  int64_t total_bytes_ TOPK_GUARDED_BY(mutex_) = 0;  // received so far
  int64_t least_bytes_ TOPK_GUARDED_BY(mutex_) = 0;  // set by TakeOne()
  // Counts the larger of held_bytes_ and reserved_bytes_ as in flight.
  InFlightLimiter::Charge charge_ TOPK_GUARDED_BY(mutex_);
  int64_t held_bytes_ TOPK_GUARDED_BY(mutex_) = 0;
  int64_t taken_bytes_ TOPK_GUARDED_BY(mutex_) = 0;  // part of held_bytes_
  int64_t reserved_bytes_ TOPK_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point since_ TOPK_GUARDED_BY(mutex_);
  bool reading_ TOPK_GUARDED_BY(mutex_) = true;
  bool has_consumer_ TOPK_GUARDED_BY(mutex_) = false;
  bool ended_ TOPK_GUARDED_BY(mutex_) = false;
  Status status_ TOPK_GUARDED_BY(mutex_);  // why the stream ended
};

}  // namespace topk
