// How much is let in at once, and when those that are not may come again.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/checked.h"
#include "core/base/status.h"

namespace topk {

/// What may be under way at once, in the whole server and of one client.
struct AdmissionLimits {
  /// Bytes of requests, of their answers and of the work on them.
  int64_t bytes;
  int64_t client_bytes;
  /// Calls.
  int64_t calls;
  int64_t client_calls;
};

/// Tells those who were refused when to come again. It is a queue that exists
/// in thought alone: who is refused goes to its end, and it moves on as fast as
/// what is inside is done.
class RetryDelayEstimator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Returns after how long so much will be let in. `done` is how much has been
  /// done since the beginning. At least 20 ms and at most 10 s, spread by a
  /// fifth, so that those who wait do not come all at once. Thread-safe.
  std::chrono::milliseconds Join(int64_t amount, int64_t done, Time now);

 private:
  std::mutex mutex_;
  Time since_{};
  int64_t done_ = 0;
  double speed_ = 0;  // a second
  double length_ = 0;
  uint32_t spread_ = 1;
};

/// Counts what is under way against its limits. Thread-safe.
class InFlightLimiter {
 public:
  explicit InFlightLimiter(const AdmissionLimits& limits) : limits_(limits) {}

  /// What one call takes; gives it back when it goes.
  class Reservation;
  /// The bytes of a share that are held for one purpose.
  class Charge;

  /// Lets a call of a client in. RESOURCE_EXHAUSTED, with the time to come
  /// again, if there are too many, of all or of this client's.
  Status Admit(std::string_view client, Reservation& reservation);

  /// What is under way.
  int64_t bytes() const { return total_.bytes; }
  int64_t calls() const { return total_.calls; }
  const AdmissionLimits& limits() const { return limits_; }

 private:
  struct Use {
    std::atomic<int64_t> bytes = 0;
    std::atomic<int64_t> calls = 0;
  };
  using Clients = std::unordered_map<std::string, Use>;
  struct Shard {
    std::mutex mutex;
    Clients clients;  // those with calls under way
  };

  Shard& ShardOf(std::string_view client);
  Status TakeBytes(int64_t bytes, Clients::value_type* client);
  void ReturnBytes(int64_t bytes, Clients::value_type* client);
  void Leave(Clients::value_type* client);

  const AdmissionLimits limits_;
  Use total_;
  std::atomic<int64_t> bytes_done_ = 0;
  std::atomic<int64_t> calls_done_ = 0;
  RetryDelayEstimator bytes_delay_;
  RetryDelayEstimator calls_delay_;
  std::array<Shard, 16> shards_;
};

/// What one call takes; gives it back when it goes. Thread-safe once admitted.
class InFlightLimiter::Reservation {
 public:
  Reservation() = default;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  /// Takes `bytes` bytes more. RESOURCE_EXHAUSTED if there is no room: with a
  /// retry delay, or without one if they never fit.
  Status Take(Size bytes);

  /// Returns `bytes` of them.
  void Return(int64_t bytes);

  /// Returns all of them.
  void ReturnAll() { Return(bytes_); }

 private:
  friend class InFlightLimiter;

  InFlightLimiter* limiter_ = nullptr;  // once admitted
  Clients::value_type* client_ = nullptr;
  std::atomic<int64_t> bytes_ = 0;
};

/// Bytes of a share that are held for one purpose, such as a message that
/// waits; returned when this is destroyed. The share outlives it. Not
/// thread-safe, but several charges of one share may be used at once.
class InFlightLimiter::Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : reservation_(other.reservation_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(reservation_, other.reservation_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() { Shrink(0); }

  /// Charges `bytes` bytes more. Errors: as Reservation::Take().
  Status Add(Reservation& reservation, Size bytes);

  /// Returns all but `bytes` bytes.
  void Shrink(int64_t bytes);

  int64_t bytes() const { return bytes_; }

 private:
  Reservation* reservation_ = nullptr;  // once charged
  int64_t bytes_ = 0;
};

}  // namespace topk
