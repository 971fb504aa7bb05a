// topkd: reads its settings, serves, drains on SIGTERM or SIGINT.
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "core/engine.h"
#include "server/config.h"
#include "server/healthcheck.h"
#include "server/logging.h"
#include "server/server.h"

namespace {

constexpr int kFailure = 1;
// How long the end waits for a stderr that takes nothing.
constexpr std::chrono::seconds kLastLines{1};

// Blocks the signals that end the server, for this thread and all that it
// starts, so that sigwait alone receives them.
sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

int WaitFor(const sigset_t& set) {
  int received = 0;
  sigwait(&set, &received);
  return received;
}

int Serve(const topk::ServerConfig& config, const sigset_t& signals,
          const std::shared_ptr<spdlog::logger>& log) {
  if (const topk::Status s = topk::Engine::CheckEnvironment(); !s.ok()) {
    log->critical("{}: {}", s.field, s.message);
    return kFailure;
  }
  auto server = topk::Server::Start(config, *log);
  if (!server.ok()) {
    log->critical("{}", server.status().message);
    return kFailure;
  }
  for (const std::string& address : (*server)->addresses()) {
    log->info("serving on {}", address);
  }
  if (const std::string metrics = (*server)->metrics_address();
      !metrics.empty()) {
    log->info("metrics on http://{}/metrics", metrics);
  }
  if (const std::string admin = (*server)->admin_address(); !admin.empty()) {
    log->info("channelz on {}", admin);
  }
  if (config.allow_shared_memory) {
    log->info("shared memory is allowed: objects named {}*",
              config.shared_memory_prefix);
  }
  const int received = WaitFor(signals);
  log->info("{}: draining, {} s with open doors and {} s at most to finish",
            strsignal(received), config.drain_delay_seconds,
            config.drain_timeout_seconds);
  // A second signal ends the process at once, whatever is under way.
  std::thread([signals, log] {
    WaitFor(signals);
    log->warn("second signal: ending at once");
    topk::FlushLog(*log, kLastLines);
    std::_Exit(kFailure);
  }).detach();
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  (*server)->Drain(milliseconds(config.drain_delay_seconds),
                   milliseconds(config.drain_timeout_seconds));
  log->info("drained");
  return 0;
}

int LogAndServe(const topk::ServerConfig& config) {
  // Before there is another thread.
  const sigset_t signals = BlockSignals();
  std::signal(SIGPIPE, SIG_IGN);  // a scraper that hangs up
  const auto log = topk::MakeLogger(config.log_level, config.log_format);
  topk::CaptureLibraryLogs(log);
  const int status = Serve(config, signals, log);
  // An exit would wait for whoever writes to stderr, and all is closed already.
  if (!topk::FlushLog(*log, kLastLines)) std::_Exit(status);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const topk::CommandLine line = topk::ReadCommandLine(argc, argv);
  switch (line.action) {
    case topk::CommandLine::Action::kExit:
      return line.exit_code;
    case topk::CommandLine::Action::kHealthcheck:
      return topk::RunHealthcheck(line.healthcheck);
    case topk::CommandLine::Action::kServe:
      return LogAndServe(line.server);
  }
  return kFailure;
}
