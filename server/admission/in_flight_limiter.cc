#include "server/admission/in_flight_limiter.h"

#include <algorithm>
#include <functional>

#include "core/base/text.h"

namespace topk {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr char kServer[] = "server";

// Adds to a count unless that would exceed its limit. The count never exceeds
// the limit, not even briefly.
bool Add(std::atomic<int64_t>& count, int64_t amount, int64_t limit) {
  int64_t current = count.load();
  do {
    if (amount > limit - current) return false;
  } while (!count.compare_exchange_weak(current, current + amount));
  return true;
}

}  // namespace

milliseconds RetryDelayEstimator::Join(int64_t amount, int64_t done, Time now) {
  constexpr double kMin = 0.02;
  constexpr double kMax = 10;
  const std::lock_guard lock(mutex_);
  const double seconds = duration<double>(now - since_).count();
  if (seconds > kMax) {  // also the first time: nothing is known
    since_ = now;
    done_ = done;
    speed_ = 0;
    length_ = 0;
  } else if (seconds > 0.1) {
    const double speed = static_cast<double>(done - done_) / seconds;
    speed_ = speed_ == 0 ? speed : 0.7 * speed_ + 0.3 * speed;
    length_ = std::max(0.0, length_ - static_cast<double>(done - done_));
    since_ = now;
    done_ = done;
  }
  length_ += static_cast<double>(amount);
  const double wait =
      speed_ > 0 ? std::clamp(length_ / speed_, kMin, kMax) : 5 * kMin;
  spread_ = spread_ * 1664525 + 1013904223;  // good enough to tell them apart
  const double spread = 0.8 + 0.4 * (spread_ >> 8) / double{1 << 24};
  return milliseconds(static_cast<int64_t>(1000 * wait * spread));
}

InFlightLimiter::Shard& InFlightLimiter::ShardOf(std::string_view client) {
  return shards_[std::hash<std::string_view>()(client) % shards_.size()];
}

Status InFlightLimiter::Admit(std::string_view client,
                              Reservation& reservation) {
  const auto full = [this](std::string_view reason, const std::string& whose,
                           const std::string& message) {
    return ResourceExhausted(
        reason, whose, message,
        calls_delay_.Join(1, calls_done_, std::chrono::steady_clock::now()));
  };
  // The client's limit first: a call that exceeds it must not count for others.
  Shard& shard = ShardOf(client);
  const std::lock_guard lock(shard.mutex);
  const auto entry = shard.clients.try_emplace(std::string(client)).first;
  std::atomic<int64_t>& calls = entry->second.calls;
  const bool client_full = !Add(calls, 1, limits_.client_calls);
  if (!client_full) {
    if (Add(total_.calls, 1, limits_.calls)) {
      reservation.limiter_ = this;
      reservation.client_ = &*entry;
      return {};
    }
    --calls;
  }
  if (calls == 0) shard.clients.erase(entry);
  if (client_full) {
    return full("TOO_MANY_CALLS_OF_CLIENT", StrCat("client:", client),
                StrCat("too many calls of this client in flight "
                       "(--max-client-inflight-calls = ",
                       limits_.client_calls, ")"));
  }
  return full("TOO_MANY_CALLS", kServer,
              StrCat("too many calls in flight (--max-inflight-calls = ",
                     limits_.calls, ")"));
}

Status InFlightLimiter::TakeBytes(int64_t bytes, Clients::value_type* client) {
  const auto full = [&](std::string_view reason, const std::string& whose,
                        int64_t limit, const char* flag) {
    if (bytes > limit) {
      return ResourceExhausted("REQUEST_TOO_LARGE", "",
                               StrCat("the request needs ", bytes,
                                      " bytes at once, more than the limit (",
                                      flag, " = ", limit, ")"));
    }
    return ResourceExhausted(
        reason, whose,
        StrCat("too little memory left for ", bytes, " more bytes (", flag,
               " = ", limit, ")"),
        bytes_delay_.Join(bytes, bytes_done_,
                          std::chrono::steady_clock::now()));
  };
  // The client's limit first: bytes that exceed it must not count for others.
  if (!Add(client->second.bytes, bytes, limits_.client_bytes)) {
    return full("TOO_MANY_BYTES_OF_CLIENT", StrCat("client:", client->first),
                limits_.client_bytes, "--max-client-inflight-bytes");
  }
  if (Add(total_.bytes, bytes, limits_.bytes)) return {};
  client->second.bytes -= bytes;
  return full("TOO_MANY_BYTES", kServer, limits_.bytes, "--max-inflight-bytes");
}

void InFlightLimiter::ReturnBytes(int64_t bytes, Clients::value_type* client) {
  client->second.bytes -= bytes;
  total_.bytes -= bytes;
  bytes_done_ += bytes;
}

void InFlightLimiter::Leave(Clients::value_type* client) {
  Shard& shard = ShardOf(client->first);
  {
    const std::lock_guard lock(shard.mutex);
    if (--client->second.calls == 0) shard.clients.erase(client->first);
  }
  --total_.calls;
  ++calls_done_;
}

InFlightLimiter::Reservation::~Reservation() {
  if (limiter_ != nullptr) limiter_->Leave(client_);
}

Status InFlightLimiter::Charge::Add(Reservation& reservation, Size bytes) {
  Status status =
      reservation.limiter_->TakeBytes(bytes.value(), reservation.client_);
  if (!status.ok()) return status;
  reservation_ = &reservation;
  bytes_ += bytes.value();
  return {};
}

void InFlightLimiter::Charge::Shrink(int64_t bytes) {
  if (bytes >= bytes_) return;
  reservation_->limiter_->ReturnBytes(bytes_ - bytes, reservation_->client_);
  bytes_ = bytes;
}

}  // namespace topk
