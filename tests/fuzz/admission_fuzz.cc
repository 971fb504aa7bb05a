// Admits and releases requests with arbitrary bytes in any order. The counters
// must stay within their limits, equal the sums of the charges, and end at
// zero.

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "core/engine.h"
#include "server/admission/in_flight_limiter.h"
#include "server/calls/parsed_message.h"
#include "tests/fuzz/input.h"
#include "tests/support/quiet_protobuf.h"

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
    std::optional<std::unique_ptr<Held>>& slot =
        calls_[static_cast<size_t>(input.Below(calls_.size()))];
    switch (input.Below(5)) {
      case 0:
        Enter(input, slot);
        break;
      case 1:
        slot.reset();
        break;
      case 2:
        if (slot && !Request(input, **slot)) (*slot)->charges.pop_back();
        break;
      case 3:
        if (slot && !(*slot)->charges.empty()) {
          (*slot)->charges.back().Shrink(input.Below(int64_t{1} << 21));
        }
        break;
      default:
        if (slot && !(*slot)->charges.empty()) (*slot)->charges.pop_back();
    }
    Check();
  }

  void End() {
    for (auto& slot : calls_) slot.reset();
    Check();
    Require(limiter_.calls() == 0, "no call is left");
  }

 private:
  void Enter(Input& input, std::optional<std::unique_ptr<Held>>& slot) {
    auto held = std::make_unique<Held>();
    const std::string client(1, static_cast<char>('a' + input.Below(3)));
    slot.reset();
    if (limiter_.Admit(client, held->slot).ok()) slot = std::move(held);
  }

  // Adds a charge. Returns whether it is for a whole request.
  static bool Request(Input& input, Held& held) {
    static const Engine engine({1, {}});
    const std::string bytes(input.Take(static_cast<size_t>(input.Below(4096))));
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer buffer(&slice, 1);
    InFlightLimiter::Charge& charge = held.charges.emplace_back(held.slot);
    const auto add = [&](Size more) { return charge.Add(more); };
    ParsedMessage<v1::TopKRequest> raw;
    if (!add(bytes.size()).ok() || !ParseMessage(buffer, add, raw).ok()) {
      return false;
    }
    // Without a source, the tensor's length does not have to match its shape.
    raw.message.mutable_tensor()->clear_source();
    const Result<PreparedRequest> prepared = engine.PrepareStream(raw.message);
    if (!prepared.ok()) return false;
    const Cost& cost = prepared->cost;
    Require(cost.nanoseconds > 0, "a cost has a time");
    Require(cost.output_bytes == prepared->plan->output_bytes(),
            "a cost has the outputs");
    const Status status = add(cost.output_bytes + cost.working_bytes);
    Require(status.ok() == (status.reason.empty()), "a refusal has a reason");
    return status.ok();
  }

  void Check() const {
    int64_t bytes = 0;
    int64_t calls = 0;
    for (const auto& slot : calls_) {
      if (!slot) continue;
      ++calls;
      for (const InFlightLimiter::Charge& charge : (*slot)->charges) {
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
  std::array<std::optional<std::unique_ptr<Held>>, 8> calls_;
};

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const topk::testing::QuietProtobuf quiet;
  topk::testing::Input input(data, size);
  topk::testing::Server server;
  while (!input.empty()) server.Do(input);
  server.End();
  return 0;
}
