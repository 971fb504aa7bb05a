#include "server/telemetry/poller_busy.h"

namespace topk {

PollerBusy::PollerBusy(MetricRegistry& registry, spdlog::logger& log)
    : log_(log),
      histogram_(prometheus::BuildHistogram()
                     .Name("topk_poller_busy_seconds")
                     .Help("CPU time of a poller for one event in seconds; "
                           "other events wait meanwhile")
                     .Register(registry.prometheus())
                     .Add({}, prometheus::Histogram::BucketBoundaries{
                                  1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1})) {}

void PollerBusy::Observe(std::chrono::nanoseconds busy) {
  histogram_.Observe(std::chrono::duration<double>(busy).count());
  if (busy < kMaxBusy || !lines_.Pass().has_value()) return;
  log_.warn(
      "poller busy: one event took {} ms of CPU time; calls wait for "
      "events that take longer than a few (topk_poller_busy_seconds)",
      std::chrono::duration_cast<std::chrono::milliseconds>(busy).count());
}

}  // namespace topk
