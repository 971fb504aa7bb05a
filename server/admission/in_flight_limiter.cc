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

milliseconds RetryDelayEstimator::AddRejected(int64_t amount, int64_t done,
                                              Time now) {
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

Status InFlightLimiter::Admit(std::string_view client, Slot& slot) {
  const MutexLock lock(mutex_);
  const auto entry = clients_.try_emplace(std::string(client)).first;
  Use& of_client = entry->second.calls;
  if (of_client.in_flight >= limits_.client_calls) {
    return ResourceExhausted("TOO_MANY_CALLS_OF_CLIENT", QuotaOf(client),
                             StrCat("this client has too many calls in flight "
                                    "(--max-client-inflight-calls = ",
                                    limits_.client_calls, ")"),
                             of_client.AddRejected(1));
  }
  if (all_.calls.in_flight >= limits_.calls) {
    if (of_client.in_flight == 0) clients_.erase(entry);
    return ResourceExhausted(
        "TOO_MANY_CALLS", kServer,
        StrCat("too many calls in flight (--max-inflight-calls = ",
               limits_.calls, ")"),
        all_.calls.AddRejected(1));
  }
  ++of_client.in_flight;
  ++all_.calls.in_flight;
  slot.limiter_ = this;
  slot.client_ = &*entry;
  return {};
}

InFlightLimiter::Slot::~Slot() {
  if (limiter_ == nullptr) return;
  const MutexLock lock(limiter_->mutex_);
  Use& of_client = client_->second.calls;
  of_client.Return(1);
  if (of_client.in_flight == 0) limiter_->clients_.erase(client_->first);
  limiter_->all_.calls.Return(1);
}

Status InFlightLimiter::Charge::Add(Size bytes) {
  InFlightLimiter& limiter = *slot_.limiter_;
  const AdmissionLimits& limits = limiter.limits_;
  auto& [client, uses] = *slot_.client_;
  const int64_t amount = bytes.value();
  const auto full = [&](std::string_view reason, const std::string& quota,
                        int64_t limit, const char* flag, Use& use) {
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
        use.AddRejected(amount));
  };
  // Check the client's limit first. Bytes above this limit must never count
  // against other clients.
  if (!AddWithin(limits.client_bytes, amount, uses.bytes.in_flight)) {
    return full("TOO_MANY_BYTES_OF_CLIENT", QuotaOf(client),
                limits.client_bytes, "--max-client-inflight-bytes", uses.bytes);
  }
  if (!AddWithin(limits.bytes, amount, limiter.all_.bytes.in_flight)) {
    uses.bytes.in_flight -= amount;
    return full("TOO_MANY_BYTES", kServer, limits.bytes, "--max-inflight-bytes",
                limiter.all_.bytes);
  }
  bytes_ += amount;
  return {};
}

void InFlightLimiter::Charge::Shrink(int64_t bytes) {
  if (bytes >= bytes_) return;
  InFlightLimiter& limiter = *slot_.limiter_;
  const int64_t returned = bytes_ - bytes;
  slot_.client_->second.bytes.Return(returned);
  limiter.all_.bytes.Return(returned);
  bytes_ = bytes;
}

}  // namespace topk
