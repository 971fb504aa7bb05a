// topkd: reads its settings, serves, and drains on SIGTERM or SIGINT.
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <pthread.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/text.h"
#include "server/config/config.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/read_in_pollers.h"
#include "server/memory_trimmer.h"
#include "server/security/token_set.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace topk {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongSettings = 2;
// Half of them are reserved; see acceptor.cc.
constexpr int kMinDescriptors = 128;
// If a thread is stuck, the process exits this long after the drain timeout.
// Container runtimes kill the process 5 s after the drain timeout.
constexpr std::chrono::seconds kLastResort{4};
// Signals that arrive this soon after the first one are the same request. GNU
// timeout, for example, signals the process and then its process group.
constexpr std::chrono::seconds kRepeatedSignals{1};
// How long to wait for the last log lines, in case stderr is not being read.
constexpr std::chrono::seconds kLastLines{1};

// Blocks SIGHUP, SIGTERM and SIGINT in this thread and the threads that it
// starts, so that only sigwait() receives them.
sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

// Reports an exception that nothing catches, and ends the process.
[[noreturn]] void ReportException() {
  try {
    if (const auto error = std::current_exception()) {
      std::rethrow_exception(error);
    }
  } catch (const std::system_error& error) {
    std::cerr << "topkd: " << error.what();
    if (error.code() == std::errc::resource_unavailable_try_again) {
      std::cerr << ": a thread cannot start; raise the limit of threads "
                   "(ulimit -u, or pids.max of the cgroup)";
    }
    std::cerr << "\n";
  } catch (const std::exception& error) {
    std::cerr << "topkd: " << error.what() << "\n";
  } catch (...) {
  }
  std::abort();
}

int WaitFor(const sigset_t& set) {
  int received = 0;
  sigwait(&set, &received);
  return received;
}

// Returns the next signal, or 0 if none arrives within `timeout`, which begins
// again when the process is stopped and continued.
int WaitFor(const sigset_t& set, std::chrono::milliseconds timeout) {
  const timespec wait = {timeout.count() / 1000,
                         timeout.count() % 1000 * 1'000'000};
  int received = 0;
  do {
    received = sigtimedwait(&set, nullptr, &wait);
  } while (received < 0 && errno == EINTR);
  return std::max(received, 0);
}

// Reports why the server does not start, even if nothing is logged. Returns
// `status`.
int Fail(spdlog::logger& log, const std::string& why, int status) {
  if (log.should_log(spdlog::level::critical)) {
    log.critical("{}", why);
  } else {
    std::cerr << "topkd: " << why << "\n";
  }
  return status;
}

int Serve(const CommandLine& line, const sigset_t& signals,
          const std::shared_ptr<spdlog::logger>& log) {
  const ServerConfig& config = line.server;
  const int descriptors = RaiseDescriptorLimit();
  if (descriptors < kMinDescriptors) {
    return Fail(*log,
                StrCat("the limit on open files, ", descriptors,
                       " (ulimit -n), must be at least ", kMinDescriptors),
                kFailure);
  }
  auto server = Server::Start(config, *log);
  if (!server.ok()) {
    const bool is_wrong = server.status().code == Code::kInvalidArgument;
    return Fail(*log, server.status().message,
                is_wrong ? kWrongSettings : kFailure);
  }
  std::string settings = line.settings;
  std::ranges::replace(settings, '\n', ' ');
  log->info("settings: {}", settings);
  for (const std::string& address : (*server)->addresses()) {
    log->info("serving on {}", address);
  }
  for (const auto& [name, address] : (*server)->side_addresses()) {
    log->info("serving {} on {}", name, address);
  }
  log->info("max file descriptors: {}", descriptors);
  (void)sd_notify(0, "READY=1");
  int received = WaitFor(signals);
  // Do not exit on SIGHUP: operators may send it to reload the configuration.
  for (; received == SIGHUP; received = WaitFor(signals)) {
    log->info(
        "SIGHUP is ignored; certificate and token files are reloaded when they "
        "change, and other settings need a restart");
  }
  (void)sd_notify(0, "STOPPING=1");
  log->info(
      "{}: draining; new calls are accepted for {} s, then calls in flight "
      "have {} s to finish",
      sigdescr_np(received), config.drain_delay_seconds,
      config.drain_timeout_seconds);
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  const auto delay = milliseconds(config.drain_delay_seconds);
  const auto timeout = milliseconds(config.drain_timeout_seconds);
  // Exit the process on a second signal, or if draining hangs.
  sigset_t ends = signals;
  sigdelset(&ends, SIGHUP);
  std::thread([ends, log, most = delay + timeout + kLastResort] {
    std::this_thread::sleep_for(kRepeatedSignals);
    while (WaitFor(ends, {}) != 0) continue;  // drop the repeated signals
    if (WaitFor(ends, most - kRepeatedSignals) != 0) {
      log->warn("second signal: exiting now");
    } else {
      log->critical("not drained {} s after the drain timeout; exiting now",
                    kLastResort.count());
    }
    FlushLog(kLastLines);
    std::_Exit(kFailure);
  }).detach();
  (*server)->Drain(delay, timeout);
  log->info("drained");
  return 0;
}

int Check(const CommandLine& line) {
  const auto log = MakeLogger(line.server.log_level, line.server.log_format);
  const Status status = Server::Check(line.server, *log);
  if (!status.ok()) Fail(*log, status.message, kWrongSettings);
  FlushLog(kLastLines);
  if (!status.ok()) return kWrongSettings;
  std::cout << line.settings;
  return 0;
}

// Runs `topkd hash-token`: reads a token and prints a line for the token file.
int PrintTokenLine(const std::string& name) {
  const std::string token{std::istreambuf_iterator<char>(std::cin), {}};
  const Result<std::string> line = HashTokenLine(name, token);
  if (!line.ok()) {
    std::cerr << "topkd hash-token: " << line.status().message << "\n";
    return kFailure;
  }
  std::cout << *line << "\n";
  return 0;
}

int LogAndServe(const CommandLine& line) {
  // New threads inherit the signal mask, so set the mask before they start.
  const sigset_t signals = BlockSignals();
  std::set_terminate(ReportException);
  std::signal(SIGPIPE, SIG_IGN);  // raised when a scraper hangs up
  const auto log = MakeLogger(line.server.log_level, line.server.log_format);
  CaptureLibraryLogs(log);
  // Debian builds Abseil with checks of the order in which mutexes are locked.
  // They take a lock of the whole process whenever gRPC locks a mutex.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Do not call grpc_shutdown() at exit: after a blocked write, gRPC 1.51 would
  // wait up to 10 s for its own threads.
  grpc_init();
  const int status = Serve(line, signals, log);
  // If stderr is blocked, a normal exit would block too. Exit at once instead.
  if (!FlushLog(kLastLines)) std::_Exit(status);
  return status;
}

int Run(const CommandLine& line) {
  using Action = CommandLine::Action;
  if (line.action == Action::kExit) return line.exit_code;
  if (line.action == Action::kCheckConfig) return Check(line);
  if (line.action == Action::kHashToken) return PrintTokenLine(line.token_name);
  KeepFreeMemory();
  ReadInPollers();
  return LogAndServe(line);
}

}  // namespace
}  // namespace topk

// Our code throws no exceptions. An exception from a library ends the process.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  // If stderr is closed, log lines must not go to another file or socket.
  // Writing to these descriptors still fails.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
  const int status = topk::Run(topk::ReadCommandLine(argc, argv));
  if (std::cout.flush() || status != 0) return status;
  std::cerr << "topkd: cannot write to stdout\n";
  return topk::kFailure;
}
