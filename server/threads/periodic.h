// Runs a function at regular intervals.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/common/mutex.h"

namespace topk {

/// Runs a function every `interval` on a thread of its own, for the first time
/// after the first interval. The destructor waits for a run in progress.
class Periodic {
 public:
  Periodic(std::chrono::milliseconds interval, std::function<void()> run)
      : thread_([interval, run = std::move(run)](const std::stop_token& stop) {
          Mutex mutex;
          std::condition_variable_any stopped;
          const MutexLock lock(mutex);
          while (true) {
            stopped.wait_for(mutex, stop, interval, [] { return false; });
            if (stop.stop_requested()) return;
            run();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace topk
