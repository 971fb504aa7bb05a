#include "server/drain.h"

#include <algorithm>
#include <future>
#include <thread>

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

// Calls that were sent before the client received the GOAWAY arrive within a
// round trip. Clients that ignore it do not delay the drain for longer.
constexpr std::chrono::milliseconds kCrossing{500};
constexpr std::chrono::seconds kMaxCrossing{2};
// gRPC counts a call a moment before we do, and watchers of the health service
// need a moment to receive the last state.
constexpr std::chrono::milliseconds kQuiet{200};

void AnnounceDrain(Services& services, std::chrono::milliseconds delay) {
  services.metrics().SetReady(false);
  services.health_state().Stop();  // of all services at once, for good
  std::this_thread::sleep_for(delay);
}

void SendClientsAway(Services& services, GrpcServer& grpc,
                     Clock::time_point deadline) {
  grpc.StopAccepting();
  if (grpc.SendGoaways()) {
    services.open_calls().WaitUntilNoneArrives(
        kCrossing, std::min(deadline, Clock::now() + kMaxCrossing));
  }
}

// gRPC must not begin to shut down before the last call has ended: it may keep
// a call that crosses that until the deadline.
void FinishCalls(Services& services, Clock::time_point deadline) {
  // A StreamTopK that receives nothing for this long is ended.
  constexpr std::chrono::milliseconds kIdle{800};
  services.admission().Close();
  OpenCalls& calls = services.open_calls();
  do {
    calls.RecheckStreams();
    calls.WaitUntilNone(std::min(deadline, Clock::now() + kIdle));
  } while (calls.count() > 0 && Clock::now() < deadline);
}

// gRPC alone would wait for health watches and for idle connections, whose
// clients may take 10 s to notice.
void ShutDown(Services& services, GrpcServer& grpc,
              Clock::time_point deadline) {
  OpenCalls& calls = services.open_calls();
  const auto left =
      std::max<Clock::duration>(deadline - Clock::now(), Clock::duration{});
  const std::future<void> done = std::async(
      std::launch::async, [&grpc, end = std::chrono::system_clock::now() +
                                        left] { grpc.Shutdown(end); });
  int64_t arrived = calls.arrived();
  while (done.wait_for(kQuiet) != std::future_status::ready) {
    if (calls.count() == 0 && calls.arrived() == arrived) grpc.CancelAll();
    arrived = calls.arrived();
  }
}

}  // namespace

void Drain(Services& services, GrpcServer& grpc,
           std::chrono::milliseconds delay, std::chrono::milliseconds timeout) {
  AnnounceDrain(services, delay);
  const Clock::time_point deadline = Clock::now() + timeout;
  SendClientsAway(services, grpc, deadline);
  FinishCalls(services, deadline);
  ShutDown(services, grpc, deadline);
}

}  // namespace topk
