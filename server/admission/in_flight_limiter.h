// Limits calls and bytes in flight, and estimates retry delays.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/common/mutex.h"
#include "topk/status.h"

namespace topk {

/// Limits for the whole server and for each client.
struct AdmissionLimits {
  /// Bytes held for messages, results and scratch memory.
  int64_t bytes = 0;
  int64_t client_bytes = 0;
  /// Calls in flight, including open streams.
  int64_t calls = 0;
  int64_t client_calls = 0;
};

/// Estimates retry delays for rejected requests. Models a virtual queue: each
/// rejected request is appended, and the queue drains at the rate at which
/// admitted work finishes. Thread-safe.
///
/// In a simulation with 8 slots, 200 simultaneous requests of 200 ms, and
/// clients that make 4 attempts, all requests are served, with 2 rejections per
/// request. If the clients back off exponentially instead, from 0.1 to 2 s with
/// jitter, 40 % are served, with 8 rejections per served request.
class RetryDelayEstimator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Adds a rejected request for `amount` calls or bytes to the virtual queue.
  /// Returns the retry delay: 20 ms to 10 s, plus or minus a jitter of 20 %.
  /// `done` is the total number of calls or bytes released so far.
  std::chrono::milliseconds AddRejected(int64_t amount, int64_t done, Time now);

 private:
  Mutex mutex_;
  Time since_ TOPK_GUARDED_BY(mutex_){};      // when `done_` was last updated
  int64_t done_ TOPK_GUARDED_BY(mutex_) = 0;  // largest total seen
  double per_second_ TOPK_GUARDED_BY(mutex_) = 0;  // 0 = unknown
  double length_ TOPK_GUARDED_BY(mutex_) = 0;      // queue length in units
  uint32_t random_ TOPK_GUARDED_BY(mutex_) = 1;
};

/// Enforces limits on the calls and bytes in flight. Thread-safe.
class InFlightLimiter {
 public:
  explicit InFlightLimiter(const AdmissionLimits& limits) : limits_(limits) {}

  class Slot;
  class Charge;

  /// Admits a call of `client`. Returns RESOURCE_EXHAUSTED with a retry delay
  /// if the server or the client has too many calls in flight.
  Status Admit(std::string_view client, Slot& slot);

  /// The bytes and calls in flight, which never exceed the limits.
  int64_t bytes() const { return all_.bytes.in_flight; }
  int64_t calls() const { return all_.calls.in_flight; }
  const AdmissionLimits& limits() const { return limits_; }

 private:
  // Counts the calls or bytes of one client or of all clients. Each client has
  // its own `delay`, so a client above its limit does not delay other clients.
  struct Use {
    std::atomic<int64_t> in_flight = 0;
    std::atomic<int64_t> done = 0;
    RetryDelayEstimator delay;

    std::chrono::milliseconds AddRejected(int64_t amount) {
      return delay.AddRejected(amount, done, std::chrono::steady_clock::now());
    }
    void Return(int64_t amount) {
      in_flight -= amount;
      done += amount;
    }
  };
  struct Uses {
    Use bytes;
    Use calls;  // changed while mutex_ is locked
  };
  using Clients = std::unordered_map<std::string, Uses>;

  const AdmissionLimits limits_;
  Uses all_;
  Mutex mutex_;
  Clients clients_ TOPK_GUARDED_BY(mutex_);  // clients with calls in flight
};

/// Counts an admitted call as in flight until this object is destroyed.
class InFlightLimiter::Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot();

  /// Whether the call was admitted.
  bool is_taken() const { return limiter_ != nullptr; }

 private:
  friend class InFlightLimiter;
  friend class Charge;

  InFlightLimiter* limiter_ = nullptr;  // set once the call is admitted
  Clients::value_type* client_ = nullptr;
};

/// Memory of an admitted call, such as a queued message. The memory counts as
/// in flight until this object is destroyed. Not thread-safe, but different
/// objects of one call may be used concurrently.
class InFlightLimiter::Charge {
 public:
  /// `slot` must outlive this object.
  explicit Charge(const Slot& slot) : slot_(slot) {}
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() { Shrink(0); }

  /// Adds `bytes` to bytes(). Returns RESOURCE_EXHAUSTED if a limit would be
  /// exceeded. The error has no retry delay if this object alone would exceed
  /// the limit. REQUIRES: the call was admitted.
  Status Add(Size bytes);

  /// Reduces bytes() to at most `bytes`.
  void Shrink(int64_t bytes);

  int64_t bytes() const { return bytes_; }

 private:
  const Slot& slot_;
  int64_t bytes_ = 0;
};

}  // namespace topk
