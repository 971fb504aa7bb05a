// Admits and releases calls and charges in any order. The counters must stay
// within their limits, equal the sums of the charges, and end at zero.

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "server/admission/in_flight_limiter.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

constexpr AdmissionLimits kLimits = {.bytes = int64_t{1} << 20,
                                     .client_bytes = int64_t{3} << 18,
                                     .calls = 6,
                                     .client_calls = 3};

// A call and the charges that it holds.
struct Held {
  InFlightLimiter::Slot slot;
  std::deque<InFlightLimiter::Charge> charges;
};

class Server {
 public:
  void Do(Input& input) {
    std::unique_ptr<Held>& slot =
        calls_[static_cast<size_t>(input.Below(calls_.size()))];
    switch (input.Below(5)) {
      case 0:
        Enter(input, slot);
        break;
      case 1:
        slot.reset();
        break;
      case 2:
        if (slot) Add(input, *slot);
        break;
      case 3:
        if (slot && !slot->charges.empty()) {
          slot->charges.back().Shrink(input.Below(int64_t{1} << 21));
        }
        break;
      default:
        if (slot && !slot->charges.empty()) slot->charges.pop_back();
    }
    Check();
  }

  void End() {
    for (auto& slot : calls_) slot.reset();
    Check();
    Require(limiter_.calls() == 0, "no call is left");
  }

 private:
  void Enter(Input& input, std::unique_ptr<Held>& slot) {
    auto held = std::make_unique<Held>();
    const std::string client(1, static_cast<char>('a' + input.Below(3)));
    slot.reset();
    if (limiter_.Admit(client, held->slot).ok()) slot = std::move(held);
  }

  static void Add(Input& input, Held& held) {
    InFlightLimiter::Charge& charge = held.charges.emplace_back(held.slot);
    const int64_t bytes = input.Below(int64_t{1} << 19);
    const Status status = charge.Add(bytes);
    Require(charge.bytes() == (status.ok() ? bytes : 0),
            "a rejection charges nothing");
  }

  void Check() const {
    int64_t bytes = 0;
    int64_t calls = 0;
    for (const auto& slot : calls_) {
      if (!slot) continue;
      ++calls;
      for (const InFlightLimiter::Charge& charge : slot->charges) {
        Require(charge.bytes() >= 0, "a charge is not negative");
        bytes += charge.bytes();
      }
    }
    Require(limiter_.bytes() == bytes, "what is counted is held");
    Require(bytes <= kLimits.bytes, "the limit of bytes");
    Require(limiter_.calls() == calls, "the calls are counted");
    Require(calls <= kLimits.calls, "the limit of calls");
  }

  InFlightLimiter limiter_{kLimits};
  std::array<std::unique_ptr<Held>, 8> calls_;
};

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Server server;
  while (!input.empty()) server.Do(input);
  server.End();
  return 0;
}
