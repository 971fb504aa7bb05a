#include "server/admission/in_flight_limiter.h"

#include <algorithm>

#include "core/base/text.h"

namespace topk {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr char kServer[] = "server";

std::string QuotaOf(std::string_view client) {
  return StrCat("client:", client);
}

}  // namespace

milliseconds RetryDelayEstimator::Join(int64_t amount, int64_t done, Time now) {
  constexpr double kMin = 0.02;
  constexpr double kMax = 10;
  const MutexLock lock(mutex_);
  const double seconds = duration<double>(now - since_).count();
  // Concurrent calls may report their totals out of order. Use the largest.
  done = std::max(done, done_);
  if (seconds > kMax) {  // stale: the rate is unknown again
    since_ = now;
    done_ = done;
    per_second_ = 0;
    length_ = 0;
  } else if (seconds > 0.1) {
    const auto finished = static_cast<double>(done - done_);
    const double rate = finished / seconds;
    per_second_ = per_second_ == 0 ? rate : 0.7 * per_second_ + 0.3 * rate;
    length_ = std::max(0.0, length_ - finished);
    since_ = now;
    done_ = done;
  }
  length_ += static_cast<double>(amount);
  const double delay = per_second_ > 0
                           ? std::clamp(length_ / per_second_, kMin, kMax)
                           : 5 * kMin;
  random_ = random_ * 1664525 + 1013904223;  // LCG of Numerical Recipes
  const double jitter = 0.8 + 0.4 * (random_ >> 8) / double{1 << 24};
  return milliseconds(static_cast<int64_t>(1000 * delay * jitter));
}

Status InFlightLimiter::Admit(std::string_view client,
                              Reservation& reservation) {
  const MutexLock lock(mutex_);
  const auto entry = clients_.try_emplace(std::string(client)).first;
  int64_t& calls_of_client = entry->second.calls;
  const bool client_is_full = calls_of_client >= limits_.client_calls;
  if (!client_is_full && calls_ < limits_.calls) {
    ++calls_of_client;
    ++calls_;
    reservation.limiter_ = this;
    reservation.client_ = &*entry;
    return {};
  }
  if (calls_of_client == 0) clients_.erase(entry);
  const milliseconds delay =
      calls_delay_.Join(1, calls_done_, std::chrono::steady_clock::now());
  if (client_is_full) {
    return ResourceExhausted("TOO_MANY_CALLS_OF_CLIENT", QuotaOf(client),
                             StrCat("too many calls of this client in flight "
                                    "(--max-client-inflight-calls = ",
                                    limits_.client_calls, ")"),
                             delay);
  }
  return ResourceExhausted(
      "TOO_MANY_CALLS", kServer,
      StrCat("too many calls in flight (--max-inflight-calls = ", limits_.calls,
             ")"),
      delay);
}

InFlightLimiter::Reservation::~Reservation() {
  if (limiter_ == nullptr) return;
  const MutexLock lock(limiter_->mutex_);
  if (--client_->second.calls == 0) limiter_->clients_.erase(client_->first);
  --limiter_->calls_;
  ++limiter_->calls_done_;
}

Status InFlightLimiter::Charge::Add(Size bytes) {
  InFlightLimiter& limiter = *reservation_.limiter_;
  const AdmissionLimits& limits = limiter.limits_;
  auto& [client, use] = *reservation_.client_;
  const int64_t amount = bytes.value();
  const auto full = [&](std::string_view reason, const std::string& quota,
                        int64_t limit, const char* flag) {
    const Size whole = bytes + bytes_;
    if (whole > limit) {
      return ResourceExhausted("REQUEST_TOO_LARGE", "",
                               StrCat("the request needs ", whole.value(),
                                      " bytes of memory, more than the limit (",
                                      flag, " = ", limit, ")"));
    }
    return ResourceExhausted(
        reason, quota,
        StrCat(amount, " more bytes in flight would exceed the limit (", flag,
               " = ", limit, ")"),
        limiter.bytes_delay_.Join(amount, limiter.bytes_done_,
                                  std::chrono::steady_clock::now()));
  };
  // Check the client's limit first. Bytes above this limit must never count
  // against other clients.
  if (!AddWithin(limits.client_bytes, amount, use.bytes)) {
    return full("TOO_MANY_BYTES_OF_CLIENT", QuotaOf(client),
                limits.client_bytes, "--max-client-inflight-bytes");
  }
  if (!AddWithin(limits.bytes, amount, limiter.bytes_)) {
    use.bytes -= amount;
    return full("TOO_MANY_BYTES", kServer, limits.bytes,
                "--max-inflight-bytes");
  }
  bytes_ += amount;
  return {};
}

void InFlightLimiter::Charge::Shrink(int64_t bytes) {
  if (bytes >= bytes_) return;
  InFlightLimiter& limiter = *reservation_.limiter_;
  const int64_t returned = bytes_ - bytes;
  reservation_.client_->second.bytes -= returned;
  limiter.bytes_ -= returned;
  limiter.bytes_done_ += returned;
  bytes_ = bytes;
}

}  // namespace topk
